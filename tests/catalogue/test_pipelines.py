"""The recipes of the documentation, each in the real pipeline: Ray Data, Spark, multiprocessing."""

import multiprocessing
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pytest

import ideaw
from ideaw.catalogue.recipes import DetectBatch, DetectFiles, DetectFrames, detect_path, spark_schema, start_worker
from ideaw.catalogue.rows import SCAN_SCHEMA, as_table
from tests.catalogue.conftest import MESSAGE

RAY_DATA = """
import os, sys
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # stay on 127.0.0.1
import pyarrow as pa, pyarrow.parquet as pq, ray
from ideaw.catalogue.recipes import DetectBatch

paths = sys.argv[2:]
ray.init("local", num_cpus=3, include_dashboard=False, object_store_memory=100_000_000, log_to_driver=False)
rows = ray.data.from_items([{"path": path} for path in paths]).map_batches(
    DetectBatch,
    fn_constructor_kwargs={"speeds": "none"},
    batch_size=4,
    compute=ray.data.ActorPoolStrategy(size=2),
    num_cpus=1,
)
pq.write_table(pa.concat_tables(ray.get(rows.to_arrow_refs())), sys.argv[1])
"""


@pytest.fixture(scope="module")
def paths(clips: Path) -> list[str]:
    return sorted(map(str, [*clips.rglob("*.flac"), clips / "broken.wav"]))


@pytest.fixture(scope="module")
def expected(paths: list[str]) -> pa.Table:
    """The rows as a loop gives them."""
    return DetectFiles(speeds="none").table(paths)


def same(table: pa.Table, expected: pa.Table) -> bool:
    columns = ["path", "status", "message", "p_value", "segments_json", "error"]
    return bool(table.select(columns).sort_by("path").equals(expected.select(columns).sort_by("path")))


def test_rows_have_the_schema_of_a_scan(expected: pa.Table, clips: Path) -> None:
    assert expected.schema.equals(SCAN_SCHEMA)
    messages = dict(zip(expected["path"].to_pylist(), expected["message"].to_pylist(), strict=True))
    assert messages[f"{clips}/1.flac"] == MESSAGE
    assert messages[f"{clips}/0.flac"] is None


def test_the_schema_is_stable() -> None:
    assert [f"{column.name}: {column.type}" for column in SCAN_SCHEMA] == [
        *("index: int64", "id: string", "path: string", "size: int64", "etag: string", "status: string"),
        *("error: string", "message: string", "message_kind: string", "key: string", "p_value: double"),
        *("speed: double", "segments: int32", "marked_seconds: double", "segments_json: string"),
        *("seconds: double", "heard_seconds: double", "listened: string", "cpu_seconds: double"),
        *("tempo: double", "layer: string", "check_bits: int32", "wire_format: int32"),
    ]
    assert SCAN_SCHEMA.metadata == {b"ideaw.schema": b"1"}


def test_a_batch_of_a_pipeline_is_a_table(paths: list[str], expected: pa.Table, tmp_path: Path) -> None:
    assert same(DetectBatch(speeds="none")({"path": paths}), expected)
    key = tmp_path / "my.key"
    ideaw.Key.fresh().write(key)
    assert set(DetectBatch([str(key)], speeds="none")({"path": paths})["status"].to_pylist()) == {"none", "error"}


@pytest.mark.slow
def test_multiprocessing(paths: list[str], expected: pa.Table) -> None:
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(2, initializer=start_worker_at_own_speed) as pool:
        assert same(as_table(pool.map(detect_path, paths), SCAN_SCHEMA), expected)


def start_worker_at_own_speed() -> None:
    start_worker(speeds="none")


@pytest.mark.slow
def test_ray_data(paths: list[str], expected: pa.Table, tmp_path: Path) -> None:
    environment = os.environ | {"RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, "-c", RAY_DATA, str(tmp_path / "rows.parquet"), *paths]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    assert same(pa.parquet.read_table(tmp_path / "rows.parquet"), expected)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("pyspark") is None or shutil.which("java") is None, reason="no pyspark, or no java")
def test_spark(paths: list[str], expected: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark.sql import SparkSession

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    options = {"spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1"}
    builder = SparkSession.builder.master("local[2]")
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        files = spark.createDataFrame([(path,) for path in paths], "path string").repartition(2)
        rows = files.mapInPandas(DetectFrames(speeds="none"), spark_schema()).toPandas()
    finally:
        spark.stop()
    found = [message if isinstance(message, str) else None for message in rows.sort_values("path")["message"]]
    assert found == expected.sort_by("path")["message"].to_pylist()
    assert list(rows.columns) == SCAN_SCHEMA.names
