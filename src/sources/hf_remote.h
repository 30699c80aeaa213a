/* A file of a Hugging Face hub as a remote file: where the hub has put it, and what its answer says about it
 * (formats-huggingface.md 3.1). Private to sources/. */
#pragma once

#include "sources/hf_hub_private.h"
#include "sources/remote_file.h"

/* `info` and `file` may go, the hub must stay. */
RemoteFile *hf_remote_new (HfHub *hub, const HfInfo *info, const HfFile *file);
