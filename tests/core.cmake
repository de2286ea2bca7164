# Tests of core.
