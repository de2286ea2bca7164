# Tests of predict: from model images to the columns of a set.
msimage_test(test_model_images SOURCES test_model_images.c
             LIBRARIES msi_app msi_ms_fixture PkgConfig::CMOCKA PkgConfig::CFITSIO)
msimage_test(test_correlations SOURCES test_correlations.c LIBRARIES msi_app PkgConfig::CMOCKA)
msimage_image_test(predict_truth predict_truth.py unit 1200 $<TARGET_FILE:msimage-makems>)
msimage_image_test(predict_inputs predict_inputs.py cli 900 $<TARGET_FILE:msimage-makems>)
msimage_image_test(predict_signals predict_signals.py cli 900 $<TARGET_FILE:msimage-makems>)
