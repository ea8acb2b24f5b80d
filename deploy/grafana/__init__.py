"""thinkgate's Grafana boards: made from Python, committed as JSON. `python -m deploy.grafana` writes them anew."""
