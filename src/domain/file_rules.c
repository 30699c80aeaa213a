#include "domain/file_rules.h"

#include <string.h>

/* Lists of publication-pipeline.md, in its order. */
static const char *const dropped_folders[] = {
  "assets",   "benchmark", "benchmarks", "docs",      "encoding", "eval",     "evaluation", "example",
  "examples", "figures",   "images",     "notebooks", "onnx",     "openvino", "coreml",     "tflite",
  "original", "metal",     "scripts",    "test",      "tests",    NULL,
};
static const char *const companion_names[] = {
  "generation_config.json",
  "tokenizer.json",
  "tokenizer_config.json",
  "special_tokens_map.json",
  "preprocessor_config.json",
  "processor_config.json",
  "added_tokens.json",
  "vocab.json",
  "vocab.txt",
  "merges.txt",
  "tokenizer.model",
  "spiece.model",
  "sentencepiece.bpe.model",
  "chat_template.jinja",
  "modules.json",
  "dtypes.json",
  "params",
  "params.json",
  "tekken.json", /* beyond the page: the only tokenizer of some Mistral models */
  NULL,
};
static const char *const companion_suffixes[] = {
  ".json", ".yaml", ".yml", ".xml", ".jinja", ".model", ".txt", NULL
};
static const char *const companion_words[] = {
  "config",        "tokenizer", "vocab",   "merge",  "special_tokens", "added_tokens", "preprocessor", "processor",
  "chat_template", "module",    "pooling", "params", "dtype",          "template",     NULL,
};
static const char *const script_suffixes[] = { ".py",  ".sh", ".bash", ".zsh", ".bat", ".cmd",
                                               ".php", ".pl", ".rb",   ".ps1", NULL };
static const char *const export_folders[] = {
  "onnx/", "openvino/", "coreml/", "tflite/", "original/", "metal/", NULL
};
static const char *const export_names[] = { "tf_model.h5", "flax_model.msgpack", "rust_model.ot", "model.bin", NULL };
static const char *const export_starts[] = { "model.ckpt.", "model.ckpt-", NULL };
static const char *const export_suffixes[] = {
  ".onnx", ".tflite",  ".mlmodel", ".pdmodel", ".pdiparams", ".pt", ".pth",
  ".h5",   ".msgpack", ".ot",      ".imatrix", ".gguf_file", NULL,
};
static const char *const benign_starts[] = { "readme", "license", "notice", NULL };
static const char *const benign_suffixes[] = { ".md",  ".jpg", ".jpeg", ".png",   ".gif", ".webp",
                                               ".svg", ".pdf", ".txt",  ".jsonl", ".csv", NULL };
static const char *const rejected_suffixes[] = {
  ".so",  ".dll", ".dylib", ".exe", ".jar", ".class", ".wasm", ".zip",
  ".tar", ".tgz", ".gz",    ".bz2", ".xz",  ".7z",    ".rar",  NULL,
};
static const char *const pickle_suffixes[] = { ".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", NULL };

/* A path in lower case, and its last part. */
typedef struct {
  ModelFormat format;
  const char *path, *name;
  gboolean is_gguf;
} Subject;

static gboolean
ends_with_any (const char *text, const char *const *suffixes)
{
  for (; *suffixes != NULL; suffixes++)
    if (g_str_has_suffix (text, *suffixes))
      return TRUE;
  return FALSE;
}

static gboolean
starts_with_any (const char *text, const char *const *starts)
{
  for (; *starts != NULL; starts++)
    if (g_str_has_prefix (text, *starts))
      return TRUE;
  return FALSE;
}

static gboolean
contains_any (const char *text, const char *const *words)
{
  for (; *words != NULL; words++)
    if (strstr (text, *words) != NULL)
      return TRUE;
  return FALSE;
}

static gboolean
is_in_root (const Subject *self)
{
  return self->name == self->path;
}

static gboolean
is_litter (const Subject *self)
{
  g_auto (GStrv) parts = g_strsplit (self->path, "/", -1);
  for (guint i = 0; parts[i] != NULL; i++)
    if (parts[i][0] == '.' || strcmp (parts[i], "__macosx") == 0
        || (parts[i + 1] != NULL && g_strv_contains (dropped_folders, parts[i])))
      return TRUE;
  return FALSE;
}

static gboolean
is_config (const Subject *self)
{
  static const char *const names[MODEL_FORMAT_N] = {
    [MODEL_FORMAT_SAFETENSORS] = "config.json",
    [MODEL_FORMAT_DIFFUSERS] = "model_index.json",
  };
  return names[self->format] != NULL && strcmp (self->path, names[self->format]) == 0;
}

/* The exact names count in the root; in a pipeline also in the folder of a part, whose tokenizer would
 * otherwise lose its spiece.model (formats-safetensors-diffusers.md 5). */
static gboolean
is_companion (const Subject *self)
{
  const char *slash = strchr (self->path, '/');
  gboolean is_near = is_in_root (self)
                     || (self->format == MODEL_FORMAT_DIFFUSERS && slash != NULL && slash + 1 == self->name);
  if (is_near && g_strv_contains (companion_names, self->name))
    return TRUE;
  if (g_str_has_suffix (self->name, ".index.json"))
    return TRUE;
  return ends_with_any (self->name, companion_suffixes) && contains_any (self->name, companion_words);
}

static gboolean
is_diffusers_weights (const Subject *self)
{
  if (g_str_has_suffix (self->name, ".safetensors"))
    return TRUE;
  return !is_in_root (self) && g_str_has_suffix (self->name, ".bin")
         && (strstr (self->name, "pytorch_model") != NULL || strcmp (self->name, "model.bin") == 0);
}

static gboolean
is_weights (const Subject *self)
{
  if (self->format == MODEL_FORMAT_DIFFUSERS)
    return is_diffusers_weights (self);
  if (self->format == MODEL_FORMAT_SAFETENSORS)
    return g_str_has_suffix (self->name, ".safetensors");
  return g_str_has_suffix (self->name, ".gguf") || (self->is_gguf && strchr (self->name, '.') == NULL);
}

static gboolean
is_other_export (const Subject *self)
{
  gboolean is_torch = g_str_has_prefix (self->name, "pytorch_model") && g_str_has_suffix (self->name, ".bin");
  return is_torch || starts_with_any (self->path, export_folders) || g_strv_contains (export_names, self->name)
         || starts_with_any (self->name, export_starts) || ends_with_any (self->name, export_suffixes);
}

static gboolean
is_benign (const Subject *self)
{
  return starts_with_any (self->name, benign_starts) || strstr (self->name, "usage_policy") != NULL
         || strcmp (self->name, "use_policy") == 0 || ends_with_any (self->name, benign_suffixes);
}

static gboolean
is_script (const Subject *self)
{
  return ends_with_any (self->name, script_suffixes);
}

static gboolean
is_hard_rejected (const Subject *self)
{
  return ends_with_any (self->name, rejected_suffixes);
}

static gboolean
is_anything (const Subject *self)
{
  return TRUE;
}

enum { DIFFUSERS = 1, OTHERS = 2, ALL = 3 };

static const struct {
  guint formats;
  gboolean (*matches) (const Subject *);
  FileRuling ruling;
} rules[] = {
  { ALL, is_litter, { FILE_DROPPED, "in a folder that is no part of a model, or hidden" } },
  { ALL, is_config, { FILE_CONFIG, "the format's configuration" } },
  { ALL, is_companion, { FILE_COMPANION, "a companion" } },
  { DIFFUSERS, is_hard_rejected, { FILE_REJECTED, "programs and archives are not allowed beside a model" } },
  { DIFFUSERS, is_diffusers_weights, { FILE_WEIGHTS, "weights" } },
  { ALL, is_script, { FILE_DROPPED, "a script" } },
  { ALL, is_other_export, { FILE_DROPPED, "weights in another form" } },
  { ALL, is_benign, { FILE_DROPPED, "documentation or pictures" } },
  { OTHERS, is_hard_rejected, { FILE_REJECTED, "programs and archives are not allowed beside a model" } },
  { OTHERS, is_weights, { FILE_WEIGHTS, "weights" } },
  { ALL, is_anything, { FILE_DROPPED, "not needed" } },
};

FileRuling
file_rule (ModelFormat format, const char *path, gboolean is_gguf)
{
  g_autofree char *lower = g_ascii_strdown (path, -1);
  const char *slash = strrchr (lower, '/');
  Subject subject = { format, lower, slash != NULL ? slash + 1 : lower, is_gguf };
  guint mask = format == MODEL_FORMAT_DIFFUSERS ? DIFFUSERS : OTHERS;
  guint i = 0;
  while ((rules[i].formats & mask) == 0 || !rules[i].matches (&subject))
    i++; /* the last rule matches everything */
  return rules[i].ruling;
}

gboolean
file_is_pickle (const char *path)
{
  g_autofree char *lower = g_ascii_strdown (path, -1);
  return ends_with_any (lower, pickle_suffixes);
}
