# Tests of imaging.
