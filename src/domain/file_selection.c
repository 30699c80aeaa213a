#include "domain/file_selection.h"

#include <string.h>

#include "base/file.h"
#include "domain/pipeline_selection.h"
#include "formats/foreign_name.h"
#include "formats/shard_index.h"
#include "formats/shard_name.h"
#include "formats/shard_set.h"

#define fail_rejected(error, ...) am_fail (error, AM_ERROR_INVALID_ARGUMENT, "FileRejected", __VA_ARGS__)

static void
selected_file_clear (gpointer data)
{
  SelectedFile *file = data;
  g_free (file->path);
  g_free (file->target);
  g_free (file->why);
}

void
file_selection_free (FileSelection *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->files);
  g_free (self->variant);
  g_free (self);
}

gboolean
selected_file_is_kept (const SelectedFile *file)
{
  return file->role == FILE_CONFIG || file->role == FILE_COMPANION || file->role == FILE_WEIGHTS;
}

void
selected_file_drop (SelectedFile *file, const char *why)
{
  g_free (file->why);
  file->why = g_strdup (why);
  file->role = FILE_DROPPED;
}

guint
file_selection_n_kept (const FileSelection *self)
{
  guint n = 0;
  for (guint i = 0; i < self->files->len; i++)
    n += selected_file_is_kept (&g_array_index (self->files, SelectedFile, i));
  return n;
}

guint64
file_selection_kept_bytes (const FileSelection *self)
{
  guint64 sum = 0;
  for (guint i = 0; i < self->files->len; i++)
    {
      const SelectedFile *file = &g_array_index (self->files, SelectedFile, i);
      if (selected_file_is_kept (file) && __builtin_add_overflow (sum, file->size_bytes, &sum))
        return G_MAXUINT64;
    }
  return sum;
}

SelectedFile *
file_selection_find (const FileSelection *self, const char *target)
{
  for (guint i = 0; i < self->files->len; i++)
    {
      SelectedFile *file = &g_array_index (self->files, SelectedFile, i);
      if (strcmp (file->target, target) == 0)
        return file;
    }
  return NULL;
}

/* The source's list once its names are sane: backslashes are slashes, nothing leads outside. */
typedef struct {
  char *path; /* normalised */
  const SourceFile *source;
} Candidate;

static void
candidate_clear (gpointer candidate)
{
  g_free (((Candidate *) candidate)->path);
}

/* What part of the source is wished for. */
typedef struct {
  char *path; /* "": all of it */
  gboolean is_file;
} Place;

static void
place_clear (Place *self)
{
  g_clear_pointer (&self->path, g_free);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Place, place_clear)

static char *
normalise (const char *path)
{
  return g_strdelimit (g_strdup (path), "\\", '/');
}

static Place
find_place (const SourceFile *files, gsize n_files, const char *within)
{
  Place self = { normalise (within != NULL ? within : ""), FALSE };
  for (gsize size = strlen (self.path); size > 0 && self.path[size - 1] == '/'; size--)
    self.path[size - 1] = '\0';
  for (gsize i = 0; i < n_files && !self.is_file; i++)
    self.is_file = strcmp (files[i].path, self.path) == 0;
  return self;
}

/* Inside the folder; or the file itself and the other parts of its set. */
static gboolean
place_has (const Place *self, const char *path)
{
  gsize size = strlen (self->path);
  if (self->is_file)
    return strcmp (path, self->path) == 0 || shard_name_same_set (path, self->path);
  return size == 0 || (strncmp (path, self->path, size) == 0 && path[size] == '/');
}

/* Length of what targets go without. */
static gsize
place_prefix_size (const Place *self)
{
  const char *slash = strrchr (self->path, '/');
  if (self->is_file)
    return slash != NULL ? (gsize) (slash + 1 - self->path) : 0;
  return self->path[0] != '\0' ? strlen (self->path) + 1 : 0;
}

static GArray *
collect (const SourceFile *files, gsize n_files, const Place *place, GError **error)
{
  g_autoptr (GArray) candidates = g_array_new (FALSE, FALSE, sizeof (Candidate));
  g_array_set_clear_func (candidates, candidate_clear);
  for (gsize i = 0; i < n_files; i++)
    {
      g_autofree char *path = normalise (files[i].path);
      if (!path_is_safe (path))
        {
          g_autofree char *shown = foreign_name_show (files[i].path, strlen (files[i].path));
          fail_rejected (error, "the source has an unsafe file name: %s", shown);
          return NULL;
        }
      if (!place_has (place, path))
        continue;
      Candidate candidate = { g_steal_pointer (&path), &files[i] };
      g_array_append_val (candidates, candidate);
    }
  if (candidates->len == 0 && place->path[0] != '\0')
    return am_fail_null (error, AM_ERROR_NOT_FOUND, NULL, "the source has no file or folder \"%s\"", place->path);
  return g_steal_pointer (&candidates);
}

static FileSelection *
classify (const GArray *candidates, gsize prefix_size, ModelFormat format)
{
  FileSelection *self = g_new0 (FileSelection, 1);
  self->format = format;
  self->files = g_array_sized_new (FALSE, FALSE, sizeof (SelectedFile), candidates->len);
  g_array_set_clear_func (self->files, selected_file_clear);
  for (guint i = 0; i < candidates->len; i++)
    {
      const Candidate *candidate = &g_array_index (candidates, Candidate, i);
      const char *target = candidate->path + prefix_size;
      gboolean is_gguf = candidate->source->is_gguf && candidates->len == 1;
      FileRuling ruling = file_rule (format, target, is_gguf);
      if (candidate->source->left_out != NULL)
        ruling = (FileRuling){ FILE_DROPPED, candidate->source->left_out };
      SelectedFile file = { g_strdup (candidate->source->path), g_strdup (target), candidate->source->size_bytes,
                            ruling.role, g_strdup (ruling.why) };
      g_array_append_val (self->files, file);
    }
  return self;
}

static gboolean
has_role (const FileSelection *self, FileRole role)
{
  for (guint i = 0; i < self->files->len; i++)
    if (g_array_index (self->files, SelectedFile, i).role == role)
      return TRUE;
  return FALSE;
}

/* NULL when the format accepts the files, else why not. */
static const char *
mismatch (const FileSelection *self)
{
  gboolean has_weights = has_role (self, FILE_WEIGHTS);
  gboolean has_index = file_selection_find (self, "model_index.json") != NULL;
  switch (self->format)
    {
    case MODEL_FORMAT_DIFFUSERS:
      if (!has_index)
        return "there is no model_index.json";
      return has_weights ? NULL : "there are neither .safetensors nor pytorch_model .bin weights";
    case MODEL_FORMAT_SAFETENSORS:
      if (has_index)
        return "model_index.json says that this is a pipeline";
      if (!has_role (self, FILE_CONFIG))
        return "there is no config.json";
      return has_weights ? NULL : "there are no .safetensors weights";
    default: return has_weights ? NULL : "there are no .gguf weights";
    }
}

static gboolean
has_pickles (const GArray *candidates)
{
  for (guint i = 0; i < candidates->len; i++)
    if (file_is_pickle (g_array_index (candidates, Candidate, i).path))
      return TRUE;
  return FALSE;
}

static const ModelFormat formats_in_order[] = { MODEL_FORMAT_DIFFUSERS, MODEL_FORMAT_SAFETENSORS, MODEL_FORMAT_GGUF };

/* Exactly one format must accept, unless one is wished for. */
static FileSelection *
choose_format (const GArray *candidates, gsize prefix_size, const SelectionWish *wish, GError **error)
{
  g_autoptr (FileSelection) chosen = NULL;
  g_autoptr (GString) fitting = g_string_new (NULL), reasons = g_string_new (NULL);
  guint n_fitting = 0;
  for (guint i = 0; i < G_N_ELEMENTS (formats_in_order); i++)
    {
      if (wish->has_format && wish->format != formats_in_order[i])
        continue;
      g_autoptr (FileSelection) selection = classify (candidates, prefix_size, formats_in_order[i]);
      const char *name = model_format_name (formats_in_order[i]), *why_not = mismatch (selection);
      if (why_not != NULL)
        {
          g_string_append_printf (reasons, "%s%s: %s", reasons->len > 0 ? "; " : "", name, why_not);
          continue;
        }
      g_string_append_printf (fitting, "%s%s", n_fitting++ > 0 ? " and " : "", name);
      if (chosen == NULL)
        chosen = g_steal_pointer (&selection);
    }
  if (n_fitting == 1)
    return g_steal_pointer (&chosen);
  if (n_fitting > 1)
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, "AmbiguousFormat",
                         "the source holds a model in several formats, %s: name the one wanted, or a URL of its "
                         "folder or file",
                         fitting->str);
  gboolean pickles = has_pickles (candidates);
  return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, pickles ? "PickleRejected" : "UnsupportedFormat",
                       "no supported model was found%s (%s)",
                       pickles ? ": Python pickle weights are not accepted, convert them to safetensors" : "",
                       reasons->str);
}

static gboolean
check_rejected (const FileSelection *self, GError **error)
{
  for (guint i = 0; i < self->files->len; i++)
    {
      const SelectedFile *file = &g_array_index (self->files, SelectedFile, i);
      if (file->role == FILE_REJECTED)
        return fail_rejected (error, "%s: %s", file->path, file->why);
    }
  return TRUE;
}

static int
compare_strings (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const char *const *) a, *(const char *const *) b);
}

/* Kept names must differ by more than case: not every file system of a consumer tells them apart. */
static gboolean
check_clashes (const FileSelection *self, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; i < self->files->len; i++)
    {
      const SelectedFile *file = &g_array_index (self->files, SelectedFile, i);
      if (selected_file_is_kept (file))
        g_ptr_array_add (names, g_utf8_casefold (file->target, -1));
    }
  g_ptr_array_sort (names, compare_strings);
  for (guint i = 1; i < names->len; i++)
    if (strcmp (names->pdata[i - 1], names->pdata[i]) == 0)
      return fail_rejected (error, "the source has a file twice, or two whose names differ by case only: %s",
                            (const char *) names->pdata[i]);
  return TRUE;
}

/* Other copies of the weights in model*.safetensors: what Mistral puts beside the Hugging Face files, and
 * variants such as model.fp16.safetensors. An engine would load them twice (pitfalls-sources.md 38). */
static void
drop_copies (FileSelection *self)
{
  gboolean has_single = FALSE, has_model = FALSE;
  for (guint i = 0; i < self->files->len; i++)
    {
      const SelectedFile *file = &g_array_index (self->files, SelectedFile, i);
      if (file->role != FILE_WEIGHTS)
        continue;
      has_single |= strcmp (file->target, "model.safetensors") == 0;
      has_model |= g_str_has_prefix (file->target, "model.safetensors") || g_str_has_prefix (file->target, "model-0");
    }
  for (guint i = 0; i < self->files->len; i++)
    {
      SelectedFile *file = &g_array_index (self->files, SelectedFile, i);
      gboolean is_variant = has_single && g_str_has_prefix (file->target, "model.")
                            && strcmp (file->target, "model.safetensors") != 0;
      if (file->role == FILE_WEIGHTS
          && (is_variant || (has_model && g_str_has_prefix (file->target, "consolidated"))))
        selected_file_drop (file, "another copy of the weights in model*.safetensors");
    }
}

static int
compare_by_set (gconstpointer pa, gconstpointer pb)
{
  const char *a = *(const char *const *) pa, *b = *(const char *const *) pb;
  ShardName x, y;
  gboolean is_x = shard_name_parse (a, &x), is_y = shard_name_parse (b, &y);
  g_assert (is_x && is_y); /* only such names are in the list */
  int order = memcmp (a, b, MIN (x.stem_size, y.stem_size));
  if (order == 0)
    order = x.stem_size < y.stem_size ? -1 : x.stem_size > y.stem_size;
  if (order == 0)
    order = x.count < y.count ? -1 : x.count > y.count;
  return order != 0 ? order : strcmp (x.rest, y.rest);
}

/* Numbered sets must be complete before anything is downloaded. */
static gboolean
check_sets (const FileSelection *self, GError **error)
{
  g_autoptr (GPtrArray) numbered = g_ptr_array_new ();
  ShardName shard;
  for (guint i = 0; i < self->files->len; i++)
    {
      const SelectedFile *file = &g_array_index (self->files, SelectedFile, i);
      if (file->role == FILE_WEIGHTS && shard_name_parse (file->target, &shard))
        g_ptr_array_add (numbered, file->target);
    }
  g_ptr_array_sort (numbered, compare_by_set);
  for (guint start = 0, end; start < numbered->len; start = end)
    {
      g_autoptr (GPtrArray) set = g_ptr_array_new ();
      for (end = start; end < numbered->len && compare_by_set (&numbered->pdata[start], &numbered->pdata[end]) == 0;
           end++)
        g_ptr_array_add (set, numbered->pdata[end]);
      if (!shard_set_check_names (set, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
is_shard_index (const FileSelection *self, const SelectedFile *file)
{
  return file->role == FILE_COMPANION && shard_index_is_name (file->target, self->format == MODEL_FORMAT_DIFFUSERS);
}

/* Sets that an index will judge are left to it: it can say what is stale. */
static gboolean
has_index (const FileSelection *self)
{
  for (guint i = 0; i < self->files->len; i++)
    if (is_shard_index (self, &g_array_index (self->files, SelectedFile, i)))
      return TRUE;
  return FALSE;
}

FileSelection *
file_selection_new (const SourceFile *files, gsize n_files, const SelectionWish *wish, GError **error)
{
  static const SelectionWish no_wish = { 0 };
  wish = wish != NULL ? wish : &no_wish;
  g_auto (Place) place = find_place (files, n_files, wish->within);
  g_autoptr (GArray) candidates = collect (files, n_files, &place, error);
  if (candidates == NULL)
    return NULL;
  g_autoptr (FileSelection) self = choose_format (candidates, place_prefix_size (&place), wish, error);
  if (self == NULL || !check_rejected (self, error))
    return NULL;
  self->variant = g_strdup (wish->variant);
  if (self->format == MODEL_FORMAT_SAFETENSORS)
    drop_copies (self);
  if (self->format == MODEL_FORMAT_DIFFUSERS && !pipeline_select (self, error))
    return NULL;
  if (!check_clashes (self, error) || (!has_index (self) && !check_sets (self, error)))
    return NULL;
  return g_steal_pointer (&self);
}

/* Kept weights of the folder (with its slash), relative to it, ascending. */
static GPtrArray *
weights_in (const FileSelection *self, const char *folder, gsize size)
{
  GPtrArray *names = g_ptr_array_new ();
  for (guint i = 0; i < self->files->len; i++)
    {
      const SelectedFile *file = &g_array_index (self->files, SelectedFile, i);
      if (file->role == FILE_WEIGHTS && strncmp (file->target, folder, size) == 0)
        g_ptr_array_add (names, file->target + size);
    }
  g_ptr_array_sort (names, compare_strings);
  return names;
}

/* All indexes of a selection, loaded. */
typedef struct {
  const SelectedFile *file;
  ShardIndex *index;
} LoadedIndex;

static void
loaded_index_clear (gpointer data)
{
  shard_index_free (((LoadedIndex *) data)->index);
}

static gboolean
load_index (FileSelection *self, const SelectedFile *file, FileLoad load, gpointer data, GArray *indexes,
            GError **error)
{
  gsize size;
  g_autoptr (GBytes) bytes = load (file->path, data, error);
  if (bytes == NULL)
    return FALSE;
  const char *text = g_bytes_get_data (bytes, &size);
  LoadedIndex loaded = { file, shard_index_parse (text != NULL ? text : "", size, error) };
  g_autoptr (GPtrArray) present = weights_in (self, file->target, shard_index_folder_size (file->target));
  if (loaded.index == NULL)
    {
      g_prefix_error (error, "%s: ", file->path);
      return FALSE;
    }
  g_array_append_val (indexes, loaded);
  if (shard_index_check_files (loaded.index, present, error))
    return TRUE;
  g_prefix_error (error, "%s: ", file->path);
  return FALSE;
}

/* An index decides for the weights of its folder; several indexes decide together. */
static gboolean
is_unnamed (const SelectedFile *file, const GArray *indexes)
{
  gboolean judged = FALSE;
  for (guint i = 0; i < indexes->len; i++)
    {
      const LoadedIndex *loaded = &g_array_index (indexes, LoadedIndex, i);
      gsize size = shard_index_folder_size (loaded->file->target);
      if (strncmp (file->target, loaded->file->target, size) != 0)
        continue;
      if (shard_index_names (loaded->index, file->target + size))
        return FALSE;
      judged |= shard_index_folder_size (file->target) == size;
    }
  return judged;
}

static gboolean
refine_by_indexes (FileSelection *self, FileLoad load, gpointer data, GError **error)
{
  g_autoptr (GArray) indexes = g_array_new (FALSE, FALSE, sizeof (LoadedIndex));
  g_array_set_clear_func (indexes, loaded_index_clear);
  for (guint i = 0; i < self->files->len; i++)
    {
      const SelectedFile *file = &g_array_index (self->files, SelectedFile, i);
      if (is_shard_index (self, file) && !load_index (self, file, load, data, indexes, error))
        return FALSE;
    }
  for (guint i = 0; i < self->files->len; i++)
    {
      SelectedFile *file = &g_array_index (self->files, SelectedFile, i);
      if (file->role == FILE_WEIGHTS && is_unnamed (file, indexes))
        selected_file_drop (file, "the shard index does not name it");
    }
  return check_sets (self, error);
}

static gboolean
refine_pipeline (FileSelection *self, FileLoad load, gpointer data, GError **error)
{
  const SelectedFile *file = file_selection_find (self, "model_index.json");
  gsize size;
  g_autoptr (GBytes) bytes = load (file->path, data, error);
  if (bytes == NULL)
    return FALSE;
  const char *text = g_bytes_get_data (bytes, &size);
  g_autoptr (DiffusersIndex) index = diffusers_index_parse (text != NULL ? text : "", size, error);
  if (index == NULL)
    {
      g_prefix_error (error, "%s: ", file->path);
      return FALSE;
    }
  return pipeline_refine (self, index, error);
}

gboolean
file_selection_refine (FileSelection *self, FileLoad load, gpointer data, GError **error)
{
  if (self->format == MODEL_FORMAT_GGUF)
    return TRUE;
  if (self->format == MODEL_FORMAT_DIFFUSERS && !refine_pipeline (self, load, data, error))
    return FALSE;
  return refine_by_indexes (self, load, data, error);
}
