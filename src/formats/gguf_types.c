#include "formats/gguf.h"

/* formats-gguf.md 3.1: ggml's block sizes. */
static const GgufTensorType tensor_types[] = {
  [0] = { "F32", 1, 4, 4 },         [1] = { "F16", 1, 2, 2 },         [2] = { "Q4_0", 32, 18, 0 },
  [3] = { "Q4_1", 32, 20, 0 },      [6] = { "Q5_0", 32, 22, 0 },      [7] = { "Q5_1", 32, 24, 0 },
  [8] = { "Q8_0", 32, 34, 0 },      [9] = { "Q8_1", 32, 36, 0 },      [10] = { "Q2_K", 256, 84, 0 },
  [11] = { "Q3_K", 256, 110, 0 },   [12] = { "Q4_K", 256, 144, 0 },   [13] = { "Q5_K", 256, 176, 0 },
  [14] = { "Q6_K", 256, 210, 0 },   [15] = { "Q8_K", 256, 292, 0 },   [16] = { "IQ2_XXS", 256, 66, 0 },
  [17] = { "IQ2_XS", 256, 74, 0 },  [18] = { "IQ3_XXS", 256, 98, 0 }, [19] = { "IQ1_S", 256, 50, 0 },
  [20] = { "IQ4_NL", 32, 18, 0 },   [21] = { "IQ3_S", 256, 110, 0 },  [22] = { "IQ2_S", 256, 82, 0 },
  [23] = { "IQ4_XS", 256, 136, 0 }, [24] = { "I8", 1, 1, 1 },         [25] = { "I16", 1, 2, 2 },
  [26] = { "I32", 1, 4, 4 },        [27] = { "I64", 1, 8, 8 },        [28] = { "F64", 1, 8, 8 },
  [29] = { "IQ1_M", 256, 56, 0 },   [30] = { "BF16", 1, 2, 2 },       [34] = { "TQ1_0", 256, 54, 0 },
  [35] = { "TQ2_0", 256, 66, 0 },   [39] = { "MXFP4", 32, 17, 0 },    [40] = { "NVFP4", 64, 36, 0 },
  [41] = { "Q1_0", 128, 18, 0 },    [42] = { "Q2_0", 64, 18, 0 },
};

/* formats-gguf.md 3.2: llama.cpp's enum llama_ftype. */
static const char *const file_types[] = {
  [0] = "F32",     [1] = "F16",     [2] = "Q4_0",    [3] = "Q4_1",       [4] = "Q4_1",    [7] = "Q8_0",
  [8] = "Q5_0",    [9] = "Q5_1",    [10] = "Q2_K",   [11] = "Q3_K_S",    [12] = "Q3_K_M", [13] = "Q3_K_L",
  [14] = "Q4_K_S", [15] = "Q4_K_M", [16] = "Q5_K_S", [17] = "Q5_K_M",    [18] = "Q6_K",   [19] = "IQ2_XXS",
  [20] = "IQ2_XS", [21] = "Q2_K_S", [22] = "IQ3_XS", [23] = "IQ3_XXS",   [24] = "IQ1_S",  [25] = "IQ4_NL",
  [26] = "IQ3_S",  [27] = "IQ3_M",  [28] = "IQ2_S",  [29] = "IQ2_M",     [30] = "IQ4_XS", [31] = "IQ1_M",
  [32] = "BF16",   [36] = "TQ1_0",  [37] = "TQ2_0",  [38] = "MXFP4_MOE", [39] = "NVFP4",  [40] = "Q1_0",
  [41] = "Q2_0",
};

#define FILE_TYPE_GUESSED 1024

const GgufTensorType *
gguf_tensor_type (guint32 id)
{
  static const GgufTensorType unknown = { NULL, 0, 0, 0 };
  return id < G_N_ELEMENTS (tensor_types) ? &tensor_types[id] : &unknown;
}

const char *
gguf_file_type_name (guint64 file_type)
{
  guint64 id = file_type & ~(guint64) FILE_TYPE_GUESSED;
  return id < G_N_ELEMENTS (file_types) ? file_types[id] : NULL;
}
