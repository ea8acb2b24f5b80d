"""`python -m deploy.helm` writes the chart's values.schema.json; a test fails when it drifts."""

from deploy.helm.schema import FILE, render

FILE.write_text(render(), encoding="utf-8")
