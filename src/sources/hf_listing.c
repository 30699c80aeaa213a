#include "sources/hf_listing.h"

#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "sources/hf_url.h"

#define JSON_LIMIT_BYTES (64u << 20)
#define COMMIT_MAX_BYTES 128
#define MAX_INDEX_TASKS 64u

static void
clear_file (gpointer data)
{
  HfFile *file = data;
  g_free (file->path);
  g_free (file->sha256);
  g_free (file->blob_id);
}

GArray *
hf_files_new (void)
{
  GArray *files = g_array_new (FALSE, TRUE, sizeof (HfFile));
  g_array_set_clear_func (files, clear_file);
  return files;
}

static gboolean
fail_answer (GError **error, const char *what)
{
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "HubAnswer", "the hub's answer is not understood: %s", what);
}

static yyjson_doc *
parse (GBytes *json, GError **error)
{
  gsize size;
  const char *data = g_bytes_get_data (json, &size);
  g_autoptr (GError) problem = NULL;
  yyjson_doc *doc = json_parse (data, size, JSON_LIMIT_BYTES, JSON_STRICT, &problem);
  if (doc != NULL)
    return doc;
  while (size > 0 && g_ascii_isspace (*data))
    {
      data++;
      size--;
    }
  fail_answer (error, size > 0 && *data == '<'
                        ? "a web page came instead; is HF_ENDPOINT the address of a hub, or does a "
                          "proxy want a login?"
                        : problem->message);
  return NULL;
}

static gboolean
is_hex (const char *text, gsize size)
{
  return text != NULL && strlen (text) == size && strspn (text, "0123456789abcdef") == size;
}

static gboolean
is_commit (const char *text, gboolean is_mirror)
{
  if (!is_mirror || text == NULL)
    return is_hex (text, 40);
  gsize size = strlen (text);
  for (gsize i = 0; i < size; i++)
    if (!g_ascii_isalnum (text[i]))
      return FALSE;
  return size > 0 && size <= COMMIT_MAX_BYTES;
}

/* Size and hashes of one entry. An LFS pointer's own size and hash are of no use. */
static gboolean
read_file (yyjson_val *object, const char *path, const char *id_name, HfFile *out_file, GError **error)
{
  yyjson_val *lfs = json_get_object (object, "lfs");
  yyjson_val *size = yyjson_obj_get (lfs != NULL ? lfs : object, "size");
  const char *id = json_get_string (object, id_name);
  const char *sha256 = json_get_string (lfs, "oid");
  if (sha256 == NULL)
    sha256 = json_get_string (lfs, "sha256");
  if (sha256 != NULL && g_str_has_prefix (sha256, "sha256:"))
    sha256 += strlen ("sha256:");
  if (path == NULL || !path_is_safe (path))
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "FileRejected",
                    "the hub lists a file whose name is unsafe: \"%.200s\"", path != NULL ? path : "");
  if (size != NULL && !yyjson_is_null (size) && (!yyjson_is_uint (size) || yyjson_get_uint (size) > G_MAXINT64))
    return fail_answer (error, "a file's size is no size");
  if (lfs != NULL && !is_hex (sha256, 64))
    return fail_answer (error, "a large file has no SHA-256");
  *out_file = (HfFile){
    .path = g_strdup (path),
    .size_bytes = yyjson_is_uint (size) ? yyjson_get_uint (size) : G_MAXUINT64,
    .sha256 = lfs != NULL ? g_strdup (sha256) : NULL,
    .blob_id = lfs == NULL && is_hex (id, 40) ? g_strdup (id) : NULL,
  };
  return TRUE;
}

static gboolean
add_file (GArray *files, yyjson_val *object, const char *path, const char *id_name, GError **error)
{
  HfFile file;
  if (files->len >= HF_MAX_FILES)
    return am_fail (error, AM_ERROR_RESOURCE_EXHAUSTED, NULL, "the repository holds more than %u files",
                    HF_MAX_FILES);
  if (!read_file (object, path, id_name, &file, error))
    return FALSE;
  g_array_append_val (files, file);
  return TRUE;
}

gboolean
hf_tree_parse (GBytes *json, GArray *files, GError **error)
{
  g_autoptr (yyjson_doc) doc = parse (json, error);
  yyjson_val *item, *root = doc != NULL ? yyjson_doc_get_root (doc) : NULL;
  gsize i, n;
  if (doc == NULL)
    return FALSE;
  if (!yyjson_is_arr (root))
    return fail_answer (error, "a list of files was expected");
  yyjson_arr_foreach (
    root, i, n, item) if (g_strcmp0 (json_get_string (item, "type"), "file") == 0
                          && !add_file (files, item, json_get_string (item, "path"), "oid", error)) return FALSE;
  return TRUE;
}

/* A card's field may be of any type: a text, or the first of a list of texts. */
static char *
text_or_first (yyjson_val *object, const char *name)
{
  const char *text = json_get_string (object, name);
  if (text == NULL)
    text = yyjson_get_str (yyjson_arr_get_first (json_get_array (object, name)));
  return g_strdup (text);
}

/* model-index[].results[].task.type */
static char **
read_index_tasks (yyjson_val *card)
{
  g_autoptr (GPtrArray) tasks = g_ptr_array_new ();
  yyjson_val *model, *result;
  gsize i, j, n_models, n_results;
  yyjson_arr_foreach (json_get_array (card, "model-index"), i, n_models, model)
    yyjson_arr_foreach (json_get_array (model, "results"), j, n_results, result)
  {
    const char *type = json_get_string (json_get_object (result, "task"), "type");
    if (type != NULL && tasks->len < MAX_INDEX_TASKS)
      g_ptr_array_add (tasks, g_strdup (type));
  }
  g_ptr_array_add (tasks, NULL);
  return (char **) g_ptr_array_free (g_steal_pointer (&tasks), FALSE);
}

static gboolean
read_info (yyjson_val *root, gboolean is_mirror, HfInfo *info, GError **error)
{
  const char *id = json_get_string (root, "id"), *commit = json_get_string (root, "sha");
  yyjson_val *item, *gated = yyjson_obj_get (root, "gated"), *siblings = json_get_array (root, "siblings");
  gsize i, n;
  if (id == NULL || !hf_repository_is_valid (id))
    return fail_answer (error, "it names no repository");
  if (!is_commit (commit, is_mirror))
    return fail_answer (error, "it names no commit");
  info->id = g_strdup (id);
  info->commit = g_strdup (commit);
  info->task = g_strdup (json_get_string (root, "pipeline_tag"));
  info->license = text_or_first (json_get_object (root, "cardData"), "license");
  info->index_tasks = read_index_tasks (json_get_object (root, "cardData"));
  info->is_gated = yyjson_is_true (gated) || yyjson_is_str (gated);
  info->is_private = yyjson_is_true (yyjson_obj_get (root, "private"));
  yyjson_arr_foreach (siblings, i, n, item) if (!add_file (info->files, item, json_get_string (item, "rfilename"),
                                                           "blobId", error)) return FALSE;
  return TRUE;
}

HfInfo *
hf_info_parse (GBytes *json, gboolean is_mirror, GError **error)
{
  g_autoptr (yyjson_doc) doc = parse (json, error);
  if (doc == NULL)
    return NULL;
  g_autoptr (HfInfo) info = g_new0 (HfInfo, 1);
  info->files = hf_files_new ();
  return read_info (yyjson_doc_get_root (doc), is_mirror, info, error) ? g_steal_pointer (&info) : NULL;
}

void
hf_info_free (HfInfo *self)
{
  if (self == NULL)
    return;
  g_free (self->id);
  g_free (self->commit);
  g_free (self->task);
  g_free (self->license);
  g_strfreev (self->index_tasks);
  g_array_unref (self->files);
  g_free (self);
}

/* The end of a link's parameters: the comma before the next link, outside quotes. */
static gsize
parameters_size (const char *text)
{
  gboolean quoted = FALSE;
  gsize i;
  for (i = 0; text[i] != '\0' && (quoted || text[i] != ','); i++)
    if (text[i] == '"')
      quoted = !quoted;
    else if (quoted && text[i] == '\\' && text[i + 1] != '\0')
      i++;
  return i;
}

/* TRUE when `next` is among the words of the first rel parameter. */
static gboolean
is_next (const char *text, gsize size)
{
  g_autofree char *parameters = g_ascii_strdown (text, (gssize) size);
  g_auto (GStrv) each = g_strsplit (parameters, ";", -1);
  for (guint i = 0; each[i] != NULL; i++)
    {
      char *equals = strchr (each[i], '=');
      if (equals == NULL)
        continue;
      *equals = '\0';
      if (strcmp (g_strstrip (each[i]), "rel") != 0)
        continue;
      g_auto (GStrv) words = g_strsplit_set (equals + 1, " \t\"", -1);
      return g_strv_contains ((const char *const *) words, "next");
    }
  return FALSE;
}

char *
hf_link_next (const char *header)
{
  const char *open = header != NULL ? strchr (header, '<') : NULL;
  while (open != NULL)
    {
      const char *close = strchr (open, '>');
      if (close == NULL)
        return NULL;
      gsize size = parameters_size (close + 1);
      if (is_next (close + 1, size))
        return g_strndup (open + 1, (gsize) (close - open - 1));
      open = strchr (close + 1 + size, '<');
    }
  return NULL;
}
