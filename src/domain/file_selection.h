/* Which files of a source make the model, and in which format: publication-pipeline.md "Format
 * detection", formats-safetensors-diffusers.md 2 and 5, formats-gguf.md 5, and decisions.md (a URL may
 * point into a folder or at a file; a split GGUF is one model). Pure: names and sizes in, rulings out;
 * what must be read to decide (indexes) is asked of a callback. Used by publish/ and the local commands.
 *
 * A folder of several GGUF files that are no parts of one set (the same model in several quantizations,
 * a projector beside it) is kept whole, as the table says; a URL that names one file selects just it. */
#pragma once

#include "base/error.h"
#include "domain/file_rules.h"

typedef struct {
  const char *path;
  guint64 size_bytes;
  gboolean is_gguf;     /* the content begins as GGUF; matters for names without extension only */
  const char *left_out; /* why the source says that it is no file of the model; NULL: the rules decide */
} SourceFile;

typedef struct {
  gboolean has_format;
  ModelFormat format;
  const char *within;  /* a folder or file of the source; NULL: all of it */
  const char *variant; /* Diffusers: "fp16"; NULL: the plain weights */
} SelectionWish;

typedef struct {
  char *path;   /* in the source, as given */
  char *target; /* in the model: relative to `within`, with slashes */
  guint64 size_bytes;
  FileRole role;
  char *why;
} SelectedFile;

typedef struct {
  ModelFormat format;
  char *variant; /* as wished, or NULL */
  GArray *files; /* of SelectedFile, in the order given, dropped ones too; those outside `within` are left out */
} FileSelection;

/* `wish` may be NULL. INVALID_ARGUMENT: reason AmbiguousFormat names the formats that all fit;
 * UnsupportedFormat (PickleRejected when there are pickle weights) says for each format why it does not
 * fit; FileRejected names a file that must not be there, or an unsafe, doubled or clashing name;
 * ShardMissing for incomplete numbered sets. NOT_FOUND when `within` is not there. */
FileSelection *file_selection_new (const SourceFile *files, gsize n_files, const SelectionWish *wish, GError **error);
void file_selection_free (FileSelection *self);
G_DEFINE_AUTOPTR_CLEANUP_FUNC (FileSelection, file_selection_free)

/* Content of a file by its source path, or NULL with an error. */
typedef GBytes *(*FileLoad) (const char *path, gpointer data, GError **error);
/* Second step, when the files can be read: loads the shard indexes and a pipeline's model_index.json,
 * checks that all they name is there (reasons ShardMissing, StaleIndex, PipelineIncomplete) and drops
 * what they do not name. Blocks as `load` does. */
gboolean file_selection_refine (FileSelection *self, FileLoad load, gpointer data, GError **error);

gboolean selected_file_is_kept (const SelectedFile *file);
guint file_selection_n_kept (const FileSelection *self);
guint64 file_selection_kept_bytes (const FileSelection *self); /* G_MAXUINT64 on overflow */
/* The kept or dropped file of that target; NULL when there is none. */
SelectedFile *file_selection_find (const FileSelection *self, const char *target);
/* Drops a file for a reason (static or not; it is copied). */
void selected_file_drop (SelectedFile *file, const char *why);
