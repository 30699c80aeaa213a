/* A model's profile and its files as `push` and `inspect` print them. Not thread-safe. */
#pragma once

#include "cli/report.h"
#include "domain/file_selection.h"
#include "domain/model_profile.h"
#include "publish/model_source.h"

/* Members format, task, architecture, ... with only what is known for sure (metadata-profile.md). */
void model_report_json (yyjson_mut_doc *doc, yyjson_mut_val *object, const ModelProfile *profile);
void model_report_say (Cli *cli, const ModelProfile *profile);
/* Member source, of a model that comes from a hub: url, revision, within, license. */
void model_report_source_json (yyjson_mut_doc *doc, yyjson_mut_val *object, const ModelSource *source);
void model_report_source_say (Cli *cli, const ModelSource *source);
/* Member files[]: path, size, role, kept, why; of those in `digests` (path -> Digest; may be NULL) the digest. */
void model_report_files_json (yyjson_mut_doc *doc, yyjson_mut_val *object, const FileSelection *selection,
                              GHashTable *digests);
/* The kept files, then what is left out and why. */
void model_report_files_say (Cli *cli, const FileSelection *selection);
