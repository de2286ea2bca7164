/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Does the model belong to the sets? */
#ifndef MSI_SRC_PREDICT_CHECK_H
#define MSI_SRC_PREDICT_CHECK_H

#include "src/predict/predict_run.h"

/*
 * msi_predict_check - refuse a model of which the sets' correlations cannot be formed, and one that hardly is one of
 * the sets: by its centre, frame or frequencies. With -force the latter are warnings.
 * Given:   run  reader opened and scanned
 * Returns: 0, MSI_EINPUT
 */
int msi_predict_check(const msi_predict_run *run);

#endif
