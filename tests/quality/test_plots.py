"""Pictures for pages: drawn in the colour of the text around them, with every label and axis."""

import xml.etree.ElementTree as xml

from ideaw.quality import plots


def test_shares_are_drawn_for_light_and_dark() -> None:
    values = {"right": [(50.0, 20.0, 80.0), (100.0, 34.2, 100.0)], "wrong": [(0.0, 0.0, 65.8), (0.0, 0.0, 65.8)]}
    labels = ["5 $ a < b", "a label that is so long that it takes another line"]
    picture = plots.shares(labels, values, "Answers", "share in %")
    root = xml.fromstring(picture)
    said = " ".join("".join(part.itertext()) for part in root.iter("{http://www.w3.org/2000/svg}text"))
    for part in ("Answers", "share in %", "right", "wrong", "5 $ a < b", "another line"):
        assert part in said
    assert b"currentColor" in picture
    assert b"#010203" not in picture
    assert picture == plots.shares(labels, values, "Answers", "share in %")


def test_a_series_without_values_leaves_the_others_their_colours() -> None:
    labels, values = ["a"], [(50.0, 20.0, 80.0)]
    whole = plots.shares(labels, {"right": values, "wrong": values, "none": values}, "Answers", "share in %")
    part = plots.shares(labels, {"right": values, "wrong": [], "none": values}, "Answers", "share in %")
    colours = [colour for colour in (b"#2a9d8f", b"#d1495b", b"#e9a23b") if colour in part]
    assert colours == [b"#2a9d8f", b"#e9a23b"]
    assert b"#d1495b" in whole
    assert b"wrong" not in part
