"""Retraining on one's own log, without torch: recalibrate, refit, compare, evaluate. The service never imports it."""
