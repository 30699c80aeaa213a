#include "oci/modelpack.h"

#include <string.h>

static const char *const kind_names[] = {
  [MODELPACK_WEIGHT_CONFIG] = "weight.config",
  [MODELPACK_WEIGHT] = "weight",
  [MODELPACK_CODE] = "code",
  [MODELPACK_DOC] = "doc",
  [MODELPACK_DATASET] = "dataset",
  [MODELPACK_OTHER] = "other",
};

/* First fit, on the lower-case file name. After modctl's pkg/modelfile/constants.go; where its lists overlap, the
 * config pattern wins. */
static const struct {
  const char *pattern;
  ModelpackKind kind;
} patterns[] = {
  { "*tokenizer.model*", MODELPACK_WEIGHT_CONFIG },
  { "spiece.model", MODELPACK_WEIGHT_CONFIG },
  { "sentencepiece*.model", MODELPACK_WEIGHT_CONFIG },
  { "sentencepiece*.vocab", MODELPACK_WEIGHT_CONFIG },
  { "*.tiktoken", MODELPACK_WEIGHT_CONFIG },
  { "tiktoken.model", MODELPACK_WEIGHT_CONFIG },
  { "vocab.txt", MODELPACK_WEIGHT_CONFIG },
  { "merges.txt", MODELPACK_WEIGHT_CONFIG },
  { "added_tokens.txt", MODELPACK_WEIGHT_CONFIG },
  { "config.json.*", MODELPACK_WEIGHT_CONFIG },
  { "*.safetensors", MODELPACK_WEIGHT },
  { "*.gguf", MODELPACK_WEIGHT },
  { "*.gguf.*", MODELPACK_WEIGHT },
  { "*.bin", MODELPACK_WEIGHT },
  { "*.bin.*", MODELPACK_WEIGHT },
  { "*.pt", MODELPACK_WEIGHT },
  { "*.pth", MODELPACK_WEIGHT },
  { "*.pt2", MODELPACK_WEIGHT },
  { "*.pte", MODELPACK_WEIGHT },
  { "*.ckpt", MODELPACK_WEIGHT },
  { "*.ckpt.*", MODELPACK_WEIGHT },
  { "*.checkpoint", MODELPACK_WEIGHT },
  { "*.onnx", MODELPACK_WEIGHT },
  { "*.onnx_data*", MODELPACK_WEIGHT },
  { "*.onnx.data", MODELPACK_WEIGHT },
  { "*.pb", MODELPACK_WEIGHT },
  { "*.tflite", MODELPACK_WEIGHT },
  { "*.h5", MODELPACK_WEIGHT },
  { "*.hdf5", MODELPACK_WEIGHT },
  { "*.keras", MODELPACK_WEIGHT },
  { "*.data-*-of-*", MODELPACK_WEIGHT },
  { "*.index", MODELPACK_WEIGHT },
  { "*.msgpack", MODELPACK_WEIGHT },
  { "*.npy", MODELPACK_WEIGHT },
  { "*.npz", MODELPACK_WEIGHT },
  { "*.ggml", MODELPACK_WEIGHT },
  { "*.ot", MODELPACK_WEIGHT },
  { "*.engine", MODELPACK_WEIGHT },
  { "*.trt", MODELPACK_WEIGHT },
  { "*.mlmodel", MODELPACK_WEIGHT },
  { "*.llamafile", MODELPACK_WEIGHT },
  { "*.model", MODELPACK_WEIGHT },
  { "*.weights", MODELPACK_WEIGHT },
  { "*.json", MODELPACK_WEIGHT_CONFIG },
  { "*.jsonl", MODELPACK_WEIGHT_CONFIG },
  { "*.yaml", MODELPACK_WEIGHT_CONFIG },
  { "*.yml", MODELPACK_WEIGHT_CONFIG },
  { "*.toml", MODELPACK_WEIGHT_CONFIG },
  { "*.ini", MODELPACK_WEIGHT_CONFIG },
  { "*.cfg", MODELPACK_WEIGHT_CONFIG },
  { "*.conf", MODELPACK_WEIGHT_CONFIG },
  { "*.config", MODELPACK_WEIGHT_CONFIG },
  { "*.xml", MODELPACK_WEIGHT_CONFIG },
  { "*.jinja", MODELPACK_WEIGHT_CONFIG },
  { "*.jinja2", MODELPACK_WEIGHT_CONFIG },
  { "*.params", MODELPACK_WEIGHT_CONFIG },
  { "*.vocab", MODELPACK_WEIGHT_CONFIG },
  { "cmakelists.txt", MODELPACK_CODE },
  { "requirements*.txt", MODELPACK_CODE },
  { "makefile*", MODELPACK_CODE },
  { "dockerfile*", MODELPACK_CODE },
  { "*.py", MODELPACK_CODE },
  { "*.ipynb", MODELPACK_CODE },
  { "*.sh", MODELPACK_CODE },
  { "*.c", MODELPACK_CODE },
  { "*.h", MODELPACK_CODE },
  { "*.cc", MODELPACK_CODE },
  { "*.cpp", MODELPACK_CODE },
  { "*.hpp", MODELPACK_CODE },
  { "*.cu", MODELPACK_CODE },
  { "*.go", MODELPACK_CODE },
  { "*.rs", MODELPACK_CODE },
  { "*.js", MODELPACK_CODE },
  { "*.mjs", MODELPACK_CODE },
  { "*.ts", MODELPACK_CODE },
  { "*.java", MODELPACK_CODE },
  { "*.lua", MODELPACK_CODE },
  { "*.r", MODELPACK_CODE },
  { "*.bat", MODELPACK_CODE },
  { "*.ps1", MODELPACK_CODE },
  { "*.patch", MODELPACK_CODE },
  { "license*", MODELPACK_DOC },
  { "licence*", MODELPACK_DOC },
  { "copying*", MODELPACK_DOC },
  { "notice*", MODELPACK_DOC },
  { "readme*", MODELPACK_DOC },
  { "use_policy*", MODELPACK_DOC },
  { "*.md", MODELPACK_DOC },
  { "*.txt", MODELPACK_DOC },
  { "*.rst", MODELPACK_DOC },
  { "*.html", MODELPACK_DOC },
  { "*.pdf", MODELPACK_DOC },
  { "*.png", MODELPACK_DOC },
  { "*.jpg", MODELPACK_DOC },
  { "*.jpeg", MODELPACK_DOC },
  { "*.gif", MODELPACK_DOC },
  { "*.svg", MODELPACK_DOC },
  { "*.webp", MODELPACK_DOC },
  { "*.mp4", MODELPACK_DOC },
  { "*.wav", MODELPACK_DOC },
  { "*.mp3", MODELPACK_DOC },
  { "*.csv", MODELPACK_DATASET },
  { "*.parquet", MODELPACK_DATASET },
  { "*.arrow", MODELPACK_DATASET },
};

const char *
modelpack_kind_name (ModelpackKind kind)
{
  return kind_names[kind];
}

ModelpackKind
modelpack_kind_of_path (const char *path, gboolean *out_guessed)
{
  const char *slash = strrchr (path, '/');
  g_autofree char *name = g_ascii_strdown (slash == NULL ? path : slash + 1, -1);
  ModelpackKind kind = MODELPACK_OTHER;
  for (guint i = 0; kind == MODELPACK_OTHER && i < G_N_ELEMENTS (patterns); i++)
    if (g_pattern_match_simple (patterns[i].pattern, name))
      kind = patterns[i].kind;
  if (out_guessed != NULL)
    *out_guessed = kind == MODELPACK_OTHER;
  return kind == MODELPACK_OTHER ? MODELPACK_WEIGHT_CONFIG : kind;
}
