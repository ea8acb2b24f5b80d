"""`python -m deploy.engines` writes the manifests and the table in README.md; a test fails when they drift."""

from deploy.engines.manifests import kustomization, manifest
from deploy.engines.recipes import HERE, RECIPES
from deploy.engines.table import README, with_table

# First, since it refuses what does not fit.
README.write_text(with_table(README.read_text(encoding="utf-8")), encoding="utf-8")
for recipe in RECIPES:
    (HERE / recipe / "kubernetes.yaml").write_text(manifest(recipe), encoding="utf-8")
    (HERE / recipe / "kustomization.yaml").write_text(kustomization(recipe), encoding="utf-8")
