#include "formats/config_quantization.h"

#include <string.h>

#include "formats/config_value.h"
#include "formats/model_facts.h"

#define MAX_RULES 4096
#define MAX_PATTERN_BYTES 256

static const struct {
  const char *method;
  QuantizationScheme scheme;
} schemes[] = {
  { "gptq", QUANTIZATION_PACKED },
  { "awq", QUANTIZATION_PACKED },
  { "autoawq", QUANTIZATION_PACKED },
  { "auto-round", QUANTIZATION_PACKED },
  { "auto_round", QUANTIZATION_PACKED },
  { "bitsandbytes", QUANTIZATION_BITSANDBYTES },
  { "compressed-tensors", QUANTIZATION_COMPRESSED },
  { "compressed_tensors", QUANTIZATION_COMPRESSED },
  { "modelopt", QUANTIZATION_MODELOPT },
  { "modelopt_fp4", QUANTIZATION_MODELOPT },
  { "nvfp4", QUANTIZATION_MODELOPT },
  { "mxfp4", QUANTIZATION_MXFP4 },
  { "fp8", QUANTIZATION_FP8 },
  { "fbgemm_fp8", QUANTIZATION_FP8 },
  { "bitnet", QUANTIZATION_BITNET },
};

static void
rule_clear (gpointer rule)
{
  g_free (((QuantizationRule *) rule)->pattern);
}

Quantization *
quantization_new (void)
{
  Quantization *self = g_new0 (Quantization, 1);
  self->rules = g_array_new (FALSE, FALSE, sizeof (QuantizationRule));
  g_array_set_clear_func (self->rules, rule_clear);
  return self;
}

void
quantization_free (Quantization *self)
{
  if (self == NULL)
    return;
  g_array_unref (self->rules);
  g_free (self->label);
  g_free (self);
}

gboolean
quantization_glob (const char *pattern, const char *text)
{
  const char *end = text + strlen (text), *star = strchr (pattern, '*');
  if (star == NULL)
    return strcmp (pattern, text) == 0;
  if (strncmp (pattern, text, (gsize) (star - pattern)) != 0)
    return FALSE;
  text += star - pattern;
  for (pattern = star + 1; (star = strchr (pattern, '*')) != NULL; pattern = star + 1)
    {
      const char *found = memmem (text, (gsize) (end - text), pattern, (gsize) (star - pattern));
      if (found == NULL)
        return FALSE;
      text = found + (star - pattern);
    }
  gsize rest = strlen (pattern);
  return (gsize) (end - text) >= rest && memcmp (end - rest, pattern, rest) == 0;
}

/* `re:` patterns become globs; one with anything but `.*`, `\.`, `^` and `$` is given up (NULL): a regular
 * expression of a stranger is not run. Python matches from the start and leaves the end open. */
static char *
glob_of_regex (const char *regex)
{
  g_autoptr (GString) glob = g_string_new (NULL);
  const char *c = *regex == '^' ? regex + 1 : regex;
  for (; *c != '\0'; c++)
    {
      if (strcmp (c, "$") == 0)
        return g_string_free (g_steal_pointer (&glob), FALSE);
      if (strncmp (c, ".*", 2) == 0 || strncmp (c, "\\.", 2) == 0)
        g_string_append_c (glob, *c++ == '.' ? '*' : '.');
      else if (strchr (".[](){}+?|\\^$*", *c) != NULL)
        return NULL;
      else
        g_string_append_c (glob, *c);
    }
  g_string_append_c (glob, '*');
  return g_string_free (g_steal_pointer (&glob), FALSE);
}

static void
add_rule (Quantization *self, char *pattern, guint64 bits)
{
  QuantizationRule rule = { pattern, (guint) bits };
  if (pattern == NULL || strlen (pattern) > MAX_PATTERN_BYTES || self->rules->len == MAX_RULES || bits == 0
      || bits > 16)
    g_free (pattern);
  else
    g_array_append_val (self->rules, rule);
}

static guint
read_bits (yyjson_val *object)
{
  static const char *const keys[] = { "bits", "w_bit", "num_bits", "weight_bits" };
  guint64 bits;
  for (guint i = 0; i < G_N_ELEMENTS (keys); i++)
    if (config_u64 (object, keys[i], &bits) && bits > 0 && bits <= 64)
      return (guint) bits;
  return 0;
}

/* metadata-profile.md, "Quantization from quantization_config"; AWQ and GPTQ also say bits as w_bit. */
static char *
make_label (yyjson_val *config, const char *method, guint bits)
{
  gboolean is_4bit = config_true (config, "load_in_4bit"), is_8bit = config_true (config, "load_in_8bit");
  const char *bnb_type = config_string (config, "bnb_4bit_quant_type");
  if (method != NULL && bits > 0)
    return g_strdup_printf ("%s-%ubit", method, bits);
  if (method != NULL && (is_4bit || is_8bit))
    return g_strdup_printf ("%s-%dbit", method, is_4bit ? 4 : 8);
  if (bits > 0)
    return g_strdup_printf ("%ubit", bits);
  if (method == NULL && bnb_type != NULL && is_4bit)
    return g_strdup_printf ("bnb-%s", bnb_type);
  if (is_4bit || is_8bit)
    return g_strdup (is_4bit ? "4bit" : "8bit");
  return g_strdup (method);
}

static QuantizationScheme
find_scheme (const char *method, yyjson_val *config)
{
  if (method == NULL)
    return config_true (config, "load_in_4bit") || config_true (config, "load_in_8bit") ? QUANTIZATION_BITSANDBYTES
                                                                                        : QUANTIZATION_OTHER;
  for (guint i = 0; i < G_N_ELEMENTS (schemes); i++)
    if (strcmp (method, schemes[i].method) == 0)
      return schemes[i].scheme;
  return QUANTIZATION_OTHER;
}

/* A pattern, a module's name with dots, or a class name ("Linear"), which stands for all other modules. */
static void
add_target (Quantization *self, const char *target, guint bits)
{
  if (g_str_has_prefix (target, "re:"))
    add_rule (self, glob_of_regex (target + 3), bits);
  else if (strchr (target, '.') != NULL)
    add_rule (self, g_strdup (target), bits);
  else
    self->bits = bits;
}

/* compressed-tensors: config_groups {name: {targets: [...], weights: {num_bits}}}. */
static void
read_groups (Quantization *self, yyjson_val *config)
{
  yyjson_obj_iter groups;
  yyjson_val *name;
  if (!yyjson_obj_iter_init (config_object (config, "config_groups"), &groups))
    return;
  while ((name = yyjson_obj_iter_next (&groups)) != NULL)
    {
      yyjson_val *group = yyjson_obj_iter_get_val (name), *targets = config_get (group, "targets");
      guint bits = read_bits (config_object (group, "weights"));
      if (self->bits == 0)
        self->bits = bits;
      yyjson_arr_iter iter = yyjson_arr_iter_with (targets);
      for (yyjson_val *item = yyjson_arr_iter_next (&iter); item != NULL; item = yyjson_arr_iter_next (&iter))
        {
          if (yyjson_is_str (item))
            add_target (self, yyjson_get_str (item), bits);
        }
    }
}

/* MLX: {group_size, bits, "model.layers.0.mlp": {bits: 8}, ...}. */
static void
read_mlx (Quantization *self, yyjson_val *config)
{
  yyjson_obj_iter members;
  yyjson_val *name;
  self->scheme = QUANTIZATION_MLX;
  self->bits = read_bits (config);
  self->label = make_label (config, NULL, self->bits);
  if (!yyjson_obj_iter_init (config, &members))
    return;
  while ((name = yyjson_obj_iter_next (&members)) != NULL)
    if (yyjson_is_obj (yyjson_obj_iter_get_val (name)))
      add_rule (self, g_strdup (yyjson_get_str (name)), read_bits (yyjson_obj_iter_get_val (name)));
}

static void
read_object (Quantization *self, yyjson_val *config, const char *default_method)
{
  const char *given = config_string (config, "quant_method");
  g_autofree char *method = given != NULL ? g_ascii_strdown (given, -1) : g_strdup (default_method);
  self->bits = read_bits (config);
  g_autofree char *label = make_label (config, method, self->bits);
  self->label = model_facts_text (label);
  self->scheme = find_scheme (method, config);
  if (self->scheme == QUANTIZATION_COMPRESSED)
    read_groups (self, config);
}

void
quantization_read_config (Quantization *self, yyjson_val *root)
{
  static const char *const keys[] = { "quantization_config", "compression_config" };
  ConfigScope scope = config_scope (root);
  yyjson_val *const objects[] = { scope.text, root };
  const char *expert_dtype = yyjson_get_str (config_scope_get (&scope, "expert_dtype"));
  for (guint i = 0; i < G_N_ELEMENTS (keys) && self->label == NULL; i++)
    for (guint j = 0; j < G_N_ELEMENTS (objects) && self->label == NULL; j++)
      {
        yyjson_val *config = config_object (objects[j], keys[i]);
        if (config != NULL)
          read_object (self, config, i == 1 ? "compressed-tensors" : NULL);
      }
  yyjson_val *mlx = config_object (root, "quantization");
  if (mlx != NULL && (self->label == NULL || self->scheme == QUANTIZATION_OTHER) && config_has (mlx, "group_size"))
    { /* newer MLX writes it under both keys */
      g_clear_pointer (&self->label, g_free);
      read_mlx (self, mlx);
    }
  self->has_fp4_experts = expert_dtype != NULL && strcmp (expert_dtype, "fp4") == 0;
}

void
quantization_read_side_file (Quantization *self, const char *name, yyjson_val *root)
{
  if (self->label != NULL)
    return;
  if (strcmp (name, "hf_quant_config.json") == 0)
    {
      const char *algorithm = config_string (config_object (root, "quantization"), "quant_algo");
      if (algorithm == NULL)
        return;
      self->scheme = QUANTIZATION_MODELOPT;
      g_autofree char *lower = g_ascii_strdown (algorithm, -1);
      self->label = model_facts_text (lower);
    }
  else if (strcmp (name, "quantize_config.json") == 0)
    {
      read_object (self, root, "gptq");
    }
  else if (strcmp (name, "quant_config.json") == 0)
    {
      read_object (self, root, "awq");
    }
}

guint
quantization_bits (const Quantization *self, const char *module, guint default_bits)
{
  for (guint i = 0; i < self->rules->len; i++)
    {
      const QuantizationRule *rule = &g_array_index (self->rules, QuantizationRule, i);
      if (quantization_glob (rule->pattern, module))
        return rule->bits;
    }
  return self->bits != 0 ? self->bits : default_bits;
}
