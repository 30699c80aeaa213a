/* A model of a Hugging Face hub as a source: its files are streamed, none is kept on this machine. */
#pragma once

#include "publish/model_source.h"
#include "sources/hf_hub.h"

/* Asks the hub what `url` (hf_url.h) means now, or at the commit `revision` (NULL: as the address says), and lists the
 * files of that commit. Blocks. Errors: those of hf_url_parse, hf_hub_new and hf_hub_find. */
ModelSource *hub_source_open (Ctx *ctx, const HfHubConfig *config, const char *url, const char *revision,
                              GError **error);
