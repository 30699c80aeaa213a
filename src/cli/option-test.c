#include "cli/option.h"

#include <string.h>

typedef struct {
  gboolean flag, other;
  const char *text, *choice;
  guint64 number, bytes, quantity;
} Settings;

static const char *const choices[] = { "red", "green", NULL };
static const Option options[] = {
  OPTION (Settings, flag, "flag", 'f', OPTION_FLAG, NULL, NULL, ""),
  OPTION (Settings, other, "other", 'o', OPTION_FLAG, NULL, NULL, ""),
  OPTION (Settings, text, "text", 't', OPTION_TEXT, "TEXT", NULL, ""),
  OPTION (Settings, choice, "choice", '\0', OPTION_TEXT, "COLOUR", choices, ""),
  OPTION (Settings, number, "number", 'n', OPTION_NUMBER, "N", NULL, ""),
  OPTION (Settings, bytes, "bytes", '\0', OPTION_BYTES, "SIZE", NULL, ""),
  OPTION (Settings, quantity, "quantity", '\0', OPTION_QUANTITY, "QUANTITY", NULL, ""),
};
static const OptionGroup group = { NULL, options, G_N_ELEMENTS (options) };

static gboolean
parse (const char *line, Settings *settings, char **out_arguments, GError **error)
{
  g_auto (GStrv) words = g_strsplit (line, " ", -1);
  g_autoptr (GPtrArray) arguments = g_ptr_array_new ();
  OptionBinding binding = { &group, settings };
  gboolean good = options_parse (&binding, 1, *line != '\0' ? words : words + 1, arguments, error);
  g_ptr_array_add (arguments, NULL);
  *out_arguments = g_strjoinv ("|", (char **) arguments->pdata);
  /* What is kept of the words goes with them. */
  settings->text = g_intern_string (settings->text);
  settings->choice = g_intern_string (settings->choice);
  return good;
}

static const struct {
  const char *line, *arguments;
  Settings settings;
} good_lines[] = {
  { "a b", "a|b", { 0 } },
  { "-f a", "a", { .flag = TRUE } },
  { "-fo", "", { .flag = TRUE, .other = TRUE } },
  { "-fo -t x", "", { .flag = TRUE, .other = TRUE, .text = "x" } },
  { "-ftx a", "a", { .flag = TRUE, .text = "x" } },
  { "--text x --text=y", "", { .text = "y" } },
  { "--text= a", "a", { .text = "" } },
  { "--text=a=b", "", { .text = "a=b" } },
  { "--text --flag", "", { .text = "--flag" } },
  { "-- -f --flag", "-f|--flag", { 0 } },
  { "- a -f", "-|a", { .flag = TRUE } },
  { "--choice green", "", { .choice = "green" } },
  { "--number 18446744073709551615", "", { .number = G_MAXUINT64 } },
  { "--bytes 8MiB", "", { .bytes = 8 << 20 } },
  { "--quantity 1.5Ki", "", { .quantity = 1536 } },
};

static void
test_good_lines (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (good_lines); i++)
    {
      Settings settings = { 0 };
      const Settings *wanted = &good_lines[i].settings;
      g_autofree char *arguments = NULL;
      g_autoptr (GError) error = NULL;
      g_assert_true (parse (good_lines[i].line, &settings, &arguments, &error));
      g_assert_no_error (error);
      g_assert_cmpstr (arguments, ==, good_lines[i].arguments);
      g_assert_cmpint (settings.flag, ==, wanted->flag);
      g_assert_cmpint (settings.other, ==, wanted->other);
      g_assert_cmpstr (settings.text, ==, wanted->text);
      g_assert_cmpstr (settings.choice, ==, wanted->choice);
      g_assert_cmpuint (settings.number, ==, wanted->number);
      g_assert_cmpuint (settings.bytes, ==, wanted->bytes);
      g_assert_cmpuint (settings.quantity, ==, wanted->quantity);
    }
}

static const struct {
  const char *line, *message;
} bad_lines[] = {
  { "--flagg", "did you mean --flag?" },
  { "--falg", "did you mean --flag?" },
  { "--num 1", "did you mean --number?" },
  { "--zzzzzz", "there is no option --zzzzzz" },
  { "--", NULL },
  { "-x", "there is no option -x" },
  { "-fx", "there is no option -x" },
  { "--flag=1", "takes no value" },
  { "--text", "needs a value" },
  { "-ft", "needs a value" },
  { "--choice blue", "red, green" },
  { "--number -1", "wants a number" },
  { "--number 18446744073709551616", "wants a number" },
  { "--bytes 8XB", "wants a size" },
  { "--quantity 8gi", "wants a quantity" },
};

static void
test_bad_lines (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (bad_lines); i++)
    {
      Settings settings = { 0 };
      g_autofree char *arguments = NULL;
      g_autoptr (GError) error = NULL;
      gboolean good = parse (bad_lines[i].line, &settings, &arguments, &error);
      g_assert_cmpint (good, ==, bad_lines[i].message == NULL);
      if (good)
        continue;
      g_assert_true (am_error_has_reason (error, CLI_USAGE));
      g_assert_nonnull (strstr (error->message, bad_lines[i].message));
    }
}

static void
test_nearest_word (void)
{
  const char *const words[] = { "push", "pull", "inspect", "rm" };
  g_assert_cmpstr (nearest_word ("psuh", words, 4), ==, "push");
  g_assert_cmpstr (nearest_word ("insp", words, 4), ==, "inspect");
  g_assert_cmpstr (nearest_word ("remove", words, 4), ==, NULL);
  g_assert_cmpstr (nearest_word ("", words, 4), ==, NULL);
  g_autofree char *long_word = g_strnfill (5000, 'a');
  g_assert_cmpstr (nearest_word (long_word, words, 4), ==, NULL);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cli/option/good-lines", test_good_lines);
  g_test_add_func ("/cli/option/bad-lines", test_bad_lines);
  g_test_add_func ("/cli/option/nearest-word", test_nearest_word);
  return g_test_run ();
}
