"""What the installed version promises and was measured to do, as a dated report for those who must show it.

The figures travel as `figures.json`, which `benchmarks/publish.py` makes from docs/results; hashes are taken when the
report is made.
"""
