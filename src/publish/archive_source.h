/* The files of an archive as a source, unpacked while they are read: no copy of them is made. A compressed tar cannot be
 * entered in the middle, so its files are streamed in its order (ModelSource.is_sequential); what is looked at before a model
 * is taken (configurations, headers of weights) was kept when the archive was listed. Any other order of reading gives the
 * same bytes, later. Used for files of this machine (source.h) and of the staging store (staged_source.h). */
#pragma once

#include "publish/model_source.h"

/* Takes `archive` over, whatever happens. `display` names it in messages. Blocks while it is listed, which for a compressed tar
 * is to read all of it. Errors: those of archive_list. */
ModelSource *archive_source_open (Ctx *ctx, Reader *archive, const char *display, GError **error);
