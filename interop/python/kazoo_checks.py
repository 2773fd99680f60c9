"""kazoo against one server: kazoo_checks.py SERVER CONTROL."""

import logging

import client_checks
import harness
import recipe_checks

logging.basicConfig(level=logging.ERROR)
client_checks.start_all()
recipe_checks.start_all()
harness.finish()
