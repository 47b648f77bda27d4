"""Reports of benchmarks: one self-contained HTML page of tables, figures and sound."""
