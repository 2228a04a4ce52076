/* struck.h - the lines that the reader may strike out. The programs include this first, so each of
 * these calls first asks the page; the library's own calls do not. There is no store, so
 * no port and no secret either. */
#ifndef EXTRAS_BROWSER_STRUCK_H
#define EXTRAS_BROWSER_STRUCK_H

#include "common/comm/ddp.h"
#include "common/comm/store/net.h"
#include "common/data/sampler.h"
#include "common/nn/model.h"
#include "extras/browser/page.h"

#define UNLESS_STRUCK(line, call) (page_struck(line) ? (void)0 : call)
#define broadcast(...) UNLESS_STRUCK(0, broadcast(__VA_ARGS__))
#define sampler_set_epoch(...) UNLESS_STRUCK(1, sampler_set_epoch(__VA_ARGS__))
#define model_zero_grad(...) UNLESS_STRUCK(2, model_zero_grad(__VA_ARGS__))
#define model_set_grad_hook(...) UNLESS_STRUCK(3, model_set_grad_hook(__VA_ARGS__))
#define reducer_finalize(...) UNLESS_STRUCK(4, reducer_finalize(__VA_ARGS__))
#define all_reduce(...) UNLESS_STRUCK(5, all_reduce(__VA_ARGS__))
#define net_free_port() 1
#define secret_make() ((void)0)

#endif
