#include "formats/parameter_count.h"

#include <string.h>

#include "formats/foreign_name.h"

#define MAX_RULE_TESTS (1 << 24) /* a stranger chooses how many rules and tensors there are */

/* A tensor's name in two: the module, and the part behind the last dot. */
typedef struct {
  const SafetensorsTensor *tensor;
  const GPtrArray *all;
  const Quantization *quantization;
  const char *leaf;
  gsize module_size; /* without the dot */
} Named;

/* Elements as parameters: num / den of each stored one; 0 / 1 for what is no parameter. */
typedef struct {
  guint num, den;
} Ratio;

static const Ratio same = { 1, 1 }, none = { 0, 1 };

static int
compare_tensors (gconstpointer pa, gconstpointer pb)
{
  const SafetensorsTensor *a = *(const SafetensorsTensor *const *) pa, *b = *(const SafetensorsTensor *const *) pb;
  return foreign_name_compare (a->name, a->name_size, b->name, b->name_size);
}

void
parameter_count_sort (GPtrArray *tensors)
{
  g_ptr_array_sort (tensors, compare_tensors);
}

static gboolean
is_leaf (const Named *self, const char *leaf)
{
  return strcmp (self->leaf, leaf) == 0;
}

static gboolean
is_leaf_of (const Named *self, const char *const *leaves)
{
  return g_strv_contains (leaves, self->leaf);
}

/* The tensor of the same module whose last part is `leaf`. */
static const SafetensorsTensor *
sibling (const Named *self, const char *leaf)
{
  g_autofree char *name = g_strdup_printf ("%.*s%s%s", (int) self->module_size, self->tensor->name,
                                           self->module_size > 0 ? "." : "", leaf);
  SafetensorsTensor wanted = { .name = name, .name_size = strlen (name) };
  const SafetensorsTensor *key = &wanted;
  const gpointer *found = bsearch (&key, self->all->pdata, self->all->len, sizeof (gpointer), compare_tensors);
  return found != NULL ? *found : NULL;
}

static gboolean
is_integer (const SafetensorsTensor *tensor)
{
  return !safetensors_dtype_info (tensor->dtype)->is_float && tensor->dtype != SAFETENSORS_BOOL;
}

static guint
bits_of (const Named *self, guint default_bits)
{
  if ((guint64) self->quantization->rules->len * self->all->len > MAX_RULE_TESTS)
    return default_bits;
  g_autofree char *module = g_strndup (self->tensor->name, self->module_size);
  return quantization_bits (self->quantization, module, default_bits);
}

/* Weights of `bits` in containers of the tensor's own type. */
static Ratio
unpacked (const Named *self, guint bits)
{
  return (Ratio){ safetensors_dtype_info (self->tensor->dtype)->bits, MAX (bits, 1) };
}

static Ratio
ratio_packed (const Named *self)
{
  static const char *const no_weights[] = { "qzeros", "scales", "g_idx", NULL };
  if (is_leaf_of (self, no_weights))
    return none;
  return is_leaf (self, "qweight") && is_integer (self->tensor) ? unpacked (self, bits_of (self, 4)) : same;
}

static Ratio
ratio_bitsandbytes (const Named *self)
{
  static const char *const no_weights[] = { "absmax",        "quant_map", "nested_absmax", "nested_quant_map", "SCB",
                                            "weight_format", NULL };
  const SafetensorsTensor *tensor = self->tensor;
  if (is_leaf_of (self, no_weights) || g_str_has_prefix (self->leaf, "bitsandbytes__"))
    return none;
  gboolean is_4bit = tensor->dtype == SAFETENSORS_U8 && tensor->n_dims == 2 && tensor->dims[1] == 1;
  return is_4bit ? (Ratio){ 2, 1 } : same;
}

/* U8 pairs of 4-bit floats, known by their scales. */
static gboolean
is_nvfp4 (const Named *self)
{
  if (self->tensor->dtype != SAFETENSORS_U8)
    return FALSE;
  if (is_leaf (self, "weight_packed"))
    return TRUE;
  return is_leaf (self, "weight") && sibling (self, "weight_scale") != NULL
         && (sibling (self, "weight_scale_2") != NULL || sibling (self, "weight_global_scale") != NULL);
}

static Ratio
ratio_compressed (const Named *self)
{
  if (is_nvfp4 (self))
    return (Ratio){ 2, 1 };
  if (!is_leaf (self, "weight_packed") || !is_integer (self->tensor))
    return same;
  guint container = safetensors_dtype_info (self->tensor->dtype)->bits, bits = MAX (bits_of (self, 4), 1);
  return (Ratio){ MAX (container / bits, 1), 1 }; /* it does not straddle containers */
}

static Ratio
ratio_modelopt (const Named *self)
{
  return is_nvfp4 (self) ? (Ratio){ 2, 1 } : same;
}

static Ratio
ratio_mxfp4 (const Named *self)
{
  if (self->tensor->dtype == SAFETENSORS_U8 && g_str_has_suffix (self->leaf, "_scales"))
    return none;
  return self->tensor->dtype == SAFETENSORS_U8 && g_str_has_suffix (self->leaf, "_blocks") ? (Ratio){ 2, 1 } : same;
}

static Ratio
ratio_fp8 (const Named *self)
{
  gboolean is_expert = self->quantization->has_fp4_experts && is_integer (self->tensor)
                       && g_strstr_len (self->tensor->name, (gssize) self->tensor->name_size, ".experts.") != NULL;
  return is_expert ? (Ratio){ 2, 1 } : same;
}

static Ratio
ratio_mlx (const Named *self)
{
  if (is_leaf (self, "scales") || is_leaf (self, "biases"))
    {
      const SafetensorsTensor *weight = sibling (self, "weight");
      return weight != NULL && weight->dtype == SAFETENSORS_U32 ? none : same;
    }
  gboolean is_packed = self->tensor->dtype == SAFETENSORS_U32 && is_leaf (self, "weight")
                       && sibling (self, "scales") != NULL;
  return is_packed ? unpacked (self, bits_of (self, 4)) : same;
}

static Ratio
ratio_bitnet (const Named *self)
{
  return self->tensor->dtype == SAFETENSORS_U8 ? (Ratio){ 4, 1 } : same;
}

static Ratio
ratio_same (const Named *self)
{
  return same;
}

static Ratio (*const ratio_functions[]) (const Named *) = {
  [QUANTIZATION_NONE] = ratio_same,
  [QUANTIZATION_PACKED] = ratio_packed,
  [QUANTIZATION_BITSANDBYTES] = ratio_bitsandbytes,
  [QUANTIZATION_COMPRESSED] = ratio_compressed,
  [QUANTIZATION_MODELOPT] = ratio_modelopt,
  [QUANTIZATION_MXFP4] = ratio_mxfp4,
  [QUANTIZATION_FP8] = ratio_fp8,
  [QUANTIZATION_MLX] = ratio_mlx,
  [QUANTIZATION_BITNET] = ratio_bitnet,
  [QUANTIZATION_OTHER] = ratio_same,
};

/* Scales, zero points and the like of any quantizer: the whole last part, or its end behind '_'. */
static gboolean
is_bookkeeping (const char *leaf)
{
  static const char *const endings[] = {
    "weight_scale",      "weight_scale_inv", "weight_scale_2",     "weight_global_scale",
    "weight_zero_point", "input_scale",      "input_global_scale", "input_zero_point",
    "zero_point",        "weight_shape",     "weight_g_idx",       "k_scale",
    "v_scale",
  };
  for (guint i = 0; i < G_N_ELEMENTS (endings); i++)
    {
      gsize leaf_size = strlen (leaf), size = strlen (endings[i]);
      if (g_str_has_suffix (leaf, endings[i]) && (leaf_size == size || leaf[leaf_size - size - 1] == '_'))
        return TRUE;
    }
  return FALSE;
}

static Ratio
ratio_of (const GPtrArray *tensors, const SafetensorsTensor *tensor, const Quantization *quantization)
{
  const char *dot = g_strrstr_len (tensor->name, (gssize) tensor->name_size, ".");
  Named named = { tensor, tensors, quantization, dot != NULL ? dot + 1 : tensor->name,
                  dot != NULL ? (gsize) (dot - tensor->name) : 0 };
  if (tensor->n_dims == 0 || tensor->dtype == SAFETENSORS_F8_E8M0)
    return none;
  if (quantization->scheme != QUANTIZATION_NONE && is_bookkeeping (named.leaf))
    return none;
  return ratio_functions[quantization->scheme](&named);
}

void
parameter_count (const GPtrArray *tensors, const Quantization *quantization, ParameterCount *out_count)
{
  gboolean too_many_rules = (guint64) quantization->rules->len * tensors->len > MAX_RULE_TESTS;
  ParameterCount count = { .is_exact = quantization->scheme != QUANTIZATION_OTHER && !too_many_rules };
  for (guint i = 0; i < tensors->len; i++)
    {
      const SafetensorsTensor *tensor = tensors->pdata[i];
      Ratio ratio = ratio_of (tensors, tensor, quantization);
      guint64 n;
      count.bytes_of[tensor->dtype] += tensor->end_bytes - tensor->begin_bytes;
      if (__builtin_mul_overflow (tensor->n_elements, ratio.num, &n)
          || __builtin_add_overflow (count.n_parameters, n / ratio.den, &count.n_parameters))
        {
          count.n_parameters = G_MAXUINT64;
          count.is_exact = FALSE;
          break;
        }
    }
  *out_count = count;
}

SafetensorsDtype
parameter_count_dominant (const ParameterCount *count)
{
  SafetensorsDtype best = SAFETENSORS_N_DTYPES;
  for (guint want_float = 0; want_float < 2; want_float++)
    for (guint i = 0; i < SAFETENSORS_N_DTYPES; i++)
      {
        gboolean fits = count->bytes_of[i] > 0 && (!want_float || safetensors_dtype_info (i)->is_float);
        gboolean best_fits = best != SAFETENSORS_N_DTYPES && (!want_float || safetensors_dtype_info (best)->is_float);
        if (fits && (!best_fits || count->bytes_of[i] > count->bytes_of[best]))
          best = (SafetensorsDtype) i;
      }
  return best;
}
