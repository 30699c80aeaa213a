#include "cli/option.h"

#include <string.h>

#include "base/text.h"

#define MAX_WORD_BYTES 40

/* Where the parser is: what is left of argv, and the groups to look in. */
typedef struct {
  const OptionBinding *bindings;
  gsize n_bindings;
  char *const *rest;
} Parser;

typedef struct {
  const Option *option;
  gpointer settings;
} Found;

static Found
find_option (const Parser *self, const char *name, gsize name_size, char letter)
{
  for (gsize i = 0; i < self->n_bindings; i++)
    for (gsize j = 0; j < self->bindings[i].group->n_options; j++)
      {
        const Option *option = &self->bindings[i].group->options[j];
        gboolean same = name != NULL
                          ? strlen (option->name) == name_size && strncmp (option->name, name, name_size) == 0
                          : option->letter == letter;
        if (same)
          return (Found){ option, self->bindings[i].settings };
      }
  return (Found){ NULL, NULL };
}

static gboolean
is_choice (const Option *option, const char *value)
{
  return option->choices == NULL || g_strv_contains (option->choices, value);
}

static const char *const wanted[] = {
  [OPTION_NUMBER] = "number",
  [OPTION_BYTES] = "size such as 8MiB",
  [OPTION_QUANTITY] = "quantity such as 500Gi",
};

static gboolean
store_value (Found found, const char *value, GError **error)
{
  gpointer member = (guint8 *) found.settings + found.option->offset;
  gboolean good = TRUE;
  switch (found.option->type)
    {
    case OPTION_FLAG: *(gboolean *) member = TRUE; break;
    case OPTION_TEXT: *(const char **) member = value; break;
    case OPTION_NUMBER: good = text_parse_u64 (value, member); break;
    case OPTION_BYTES: good = text_parse_bytes (value, member); break;
    case OPTION_QUANTITY: good = text_parse_quantity (value, member); break;
    }
  if (!good)
    return cli_usage_fail (error, "--%s wants a %s, not \"%.100s\"", found.option->name, wanted[found.option->type],
                           value);
  if (!is_choice (found.option, value))
    {
      g_autofree char *choices = g_strjoinv (", ", (char **) found.option->choices);
      return cli_usage_fail (error, "--%s is one of %s, not \"%.100s\"", found.option->name, choices, value);
    }
  return TRUE;
}

static gboolean
fail_unknown (const Parser *self, const char *name, gsize name_size, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  g_autofree char *word = g_strndup (name, name_size);
  for (gsize i = 0; i < self->n_bindings; i++)
    for (gsize j = 0; j < self->bindings[i].group->n_options; j++)
      g_ptr_array_add (names, (gpointer) self->bindings[i].group->options[j].name);
  const char *meant = nearest_word (word, (const char *const *) names->pdata, names->len);
  if (meant == NULL)
    return cli_usage_fail (error, "there is no option --%.100s", word);
  return cli_usage_fail (error, "there is no option --%.100s; did you mean --%s?", word, meant);
}

/* `text` follows "--". */
static gboolean
take_long (Parser *self, const char *text, GError **error)
{
  gsize name_size = strcspn (text, "=");
  const char *value = text[name_size] == '=' ? text + name_size + 1 : NULL;
  Found found = find_option (self, text, name_size, '\0');
  if (found.option == NULL)
    return fail_unknown (self, text, name_size, error);
  if (found.option->type == OPTION_FLAG)
    {
      if (value != NULL)
        return cli_usage_fail (error, "--%s takes no value", found.option->name);
      return store_value (found, "", error);
    }
  if (value == NULL)
    value = *self->rest != NULL ? *self->rest++ : NULL;
  if (value == NULL)
    return cli_usage_fail (error, "--%s needs a value: --%s %s", found.option->name, found.option->name,
                           found.option->argument);
  return store_value (found, value, error);
}

/* `text` follows "-": flags, the last of which may be an option with its value. */
static gboolean
take_short (Parser *self, const char *text, GError **error)
{
  for (; *text != '\0'; text++)
    {
      Found found = find_option (self, NULL, 0, *text);
      if (found.option == NULL)
        return cli_usage_fail (error, "there is no option -%c", g_ascii_isprint (*text) ? *text : '?');
      if (found.option->type == OPTION_FLAG)
        {
          store_value (found, "", NULL);
          continue;
        }
      const char *value = text[1] != '\0' ? text + 1 : *self->rest != NULL ? *self->rest++ : NULL;
      if (value == NULL)
        return cli_usage_fail (error, "-%c needs a value: -%c %s", *text, *text, found.option->argument);
      return store_value (found, value, error);
    }
  return TRUE;
}

gboolean
options_parse (const OptionBinding *bindings, gsize n_bindings, char *const *argv, GPtrArray *out_arguments,
               GError **error)
{
  Parser self = { bindings, n_bindings, argv };
  gboolean only_arguments = FALSE;
  while (*self.rest != NULL)
    {
      char *word = *self.rest++;
      if (only_arguments || word[0] != '-' || word[1] == '\0')
        g_ptr_array_add (out_arguments, word);
      else if (strcmp (word, "--") == 0)
        only_arguments = TRUE;
      else if (word[1] == '-' ? !take_long (&self, word + 2, error) : !take_short (&self, word + 1, error))
        return FALSE;
    }
  return TRUE;
}

static guint
min3 (guint a, guint b, guint c)
{
  return MIN (a, MIN (b, c));
}

/* Edits (insert, delete, replace, swap of neighbours) from one word to the other. */
static guint
edit_distance (const char *a, const char *b)
{
  guint rows[3][MAX_WORD_BYTES + 1];
  gsize a_size = strlen (a), b_size = strlen (b);
  if (a_size > MAX_WORD_BYTES || b_size > MAX_WORD_BYTES)
    return G_MAXUINT;
  for (guint j = 0; j <= b_size; j++)
    rows[0][j] = j;
  for (guint i = 1; i <= a_size; i++)
    {
      guint *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
      row[0] = i;
      for (guint j = 1; j <= b_size; j++)
        {
          row[j] = min3 (above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
          if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
            row[j] = MIN (row[j], above2[j - 2] + 1);
        }
    }
  return rows[a_size % 3][b_size];
}

const char *
nearest_word (const char *word, const char *const *words, gsize n_words)
{
  const char *best = NULL;
  guint best_distance = G_MAXUINT;
  for (gsize i = 0; i < n_words; i++)
    {
      guint distance = edit_distance (word, words[i]);
      if (strlen (word) >= 3 && g_str_has_prefix (words[i], word))
        distance = 1;
      if (distance < best_distance)
        {
          best = words[i];
          best_distance = distance;
        }
    }
  guint allowed = strlen (word) < 4 ? 1 : strlen (word) < 8 ? 2 : 3;
  return best_distance <= allowed ? best : NULL;
}
