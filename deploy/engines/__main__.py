"""`python -m deploy.engines` writes the manifests, the table in README.md and those of docs/sizing.md; tests fail when
they drift."""

from deploy.engines.manifests import kustomization, manifest
from deploy.engines.recipes import HERE, RECIPES
from deploy.engines.sizing import PAGE, with_tables
from deploy.engines.table import README, with_table

# First, since it refuses what does not fit.
README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")
PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
for recipe in RECIPES:
    (HERE / recipe / "kubernetes.yaml").write_text(manifest(recipe), encoding="utf-8")
    (HERE / recipe / "kustomization.yaml").write_text(kustomization(recipe), encoding="utf-8")
