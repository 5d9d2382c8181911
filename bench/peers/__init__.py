"""Other exact tools on the same models and rows.

`environment` is used by the benchmark. All other modules run in an environment of the peers, which has no gpucf:
``python bench/peers/run.py FOLDER PEER``.
"""
