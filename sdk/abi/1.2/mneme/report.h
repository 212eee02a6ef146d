/* mneme/report.h: group "mneme.report/1", what a hook tells of itself: auxiliary losses, which are
 * trained, and metrics, which are shown. */
#ifndef MNEME_REPORT_H_
#define MNEME_REPORT_H_

#include "mneme/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MNEME_GROUP_REPORT "mneme.report/1"

typedef struct mneme_report_api {
  uint32_t struct_size;
  uint32_t flags;

  /* [hook] An auxiliary loss: value [B], or [] for all lanes, floating-point; weight [B] or [], 0 =
   * 1 for each lane. Where the weight is 0 the value is not looked at. The host takes the weighted
   * mean over lanes and calls, sums it over layers, multiplies it by the tier's weight.<name>
   * (1 when absent) and adds it to the loss.
   * Errors: MNEME_E_INVALID_ARGUMENT for no name, or one that mneme_plugin.losses does not declare;
   * MNEME_E_SHAPE; MNEME_E_DTYPE. */
  mneme_status (*aux)(mneme_ctx* ctx, const char* name, mneme_tensor value, mneme_tensor weight,
                      mneme_error* error);

  /* [hook] A number to report, averaged as an auxiliary loss is, without gradient, under any name.
   * Errors: as aux. */
  mneme_status (*metric)(mneme_ctx* ctx, const char* name, mneme_tensor value, mneme_tensor weight,
                         mneme_error* error);
} mneme_report_api;

#ifdef __cplusplus
}
#endif
#endif /* MNEME_REPORT_H_ */
