#include "formats/chat_template.h"

#include <string.h>

#include "formats/config_value.h"

static gboolean
contains_any (const char *lower, const char *const *words)
{
  for (; *words != NULL; words++)
    if (strstr (lower, *words) != NULL)
      return TRUE;
  return FALSE;
}

/* `{% if tools ...` or `{%- for tool in tools ...`: a statement that begins so. */
static gboolean
has_tools_statement (const char *lower)
{
  for (const char *c = strstr (lower, "{%"); c != NULL; c = strstr (c, "{%"))
    {
      c += 2;
      c += *c == '-' || *c == '+';
      while (g_ascii_isspace (*c))
        c++;
      if (g_str_has_prefix (c, "if tools") || g_str_has_prefix (c, "for tool in tools"))
        return TRUE;
    }
  return FALSE;
}

void
chat_template_add_text (ChatTemplate *self, ChatTemplateSource source, const char *text, gsize size)
{
  static const char *const tool_words[] = { "<tools>", "tool_call", NULL };
  static const char *const reasoning_words[] = { "<think>", "enable_thinking", "reasoning_content", NULL };
  if (source < self->source || size == 0)
    return;
  if (source > self->source)
    *self = (ChatTemplate){ .source = source };
  g_autofree char *lower = g_ascii_strdown (text, (gssize) size);
  self->has_tools |= contains_any (lower, tool_words) || has_tools_statement (lower);
  self->has_reasoning |= contains_any (lower, reasoning_words);
}

void
chat_template_add_json (ChatTemplate *self, ChatTemplateSource source, yyjson_val *root)
{
  yyjson_val *value = config_get (root, "chat_template");
  if (yyjson_is_str (value))
    chat_template_add_text (self, source, yyjson_get_str (value), yyjson_get_len (value));
  yyjson_arr_iter iter = yyjson_arr_iter_with (value); /* empty when it is no array */
  for (yyjson_val *item = yyjson_arr_iter_next (&iter); item != NULL; item = yyjson_arr_iter_next (&iter))
    {
      yyjson_val *text = config_get (item, "template");
      if (yyjson_is_str (text))
        chat_template_add_text (self, source, yyjson_get_str (text), yyjson_get_len (text));
    }
}

void
chat_template_apply (const ChatTemplate *self, ModelFacts *facts)
{
  facts->has_chat_template = self->source != CHAT_TEMPLATE_NONE;
  facts->template_has_tools = self->has_tools;
  facts->template_has_reasoning = self->has_reasoning;
}
