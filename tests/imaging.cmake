# Tests of imaging: from the correlations of a set to the images of a run.
msimage_test(test_stokes SOURCES test_stokes.c LIBRARIES msi_app PkgConfig::CMOCKA)
msimage_test(test_phase_shift SOURCES test_phase_shift.c LIBRARIES msi_app PkgConfig::CMOCKA)
msimage_test(test_uv_plane SOURCES test_uv_plane.c LIBRARIES msi_app PkgConfig::CMOCKA)
msimage_test(test_output_channels SOURCES test_output_channels.c
             LIBRARIES msi_app msi_testdata msi_ms_fixture PkgConfig::CMOCKA)
msimage_test(test_outputs SOURCES test_outputs.c LIBRARIES msi_app PkgConfig::CMOCKA)
