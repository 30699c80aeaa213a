/* The tables themselves: nothing twice, nothing unexplained. */
#include <string.h>

#include "cli/commands.h"
#include "cli/common_options.h"
#include "cli/exit_status.h"
#include "cli/help.h"
#include "cli/target.h"

static const Command *const commands[] = {
  &push_command, &pull_command, &inspect_command, &verify_command,     &list_command,
  &rm_command,   &copy_command, &serve_command,   &completion_command,
};

static void
check_option (const Option *option, GHashTable *seen)
{
  g_assert_cmpstr (option->help, !=, "");
  g_assert_false (g_str_has_suffix (option->help, "."));
  g_assert_cmpint (option->argument == NULL, ==, option->type == OPTION_FLAG);
  g_assert_true (g_hash_table_add (seen, g_strdup (option->name)));
  g_assert_true (option->letter == '\0' || g_hash_table_add (seen, g_strdup_printf ("-%c", option->letter)));
}

static void
test_tables (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (commands); i++)
    {
      const OptionGroup *groups[COMMAND_MAX_GROUPS + 1];
      g_autoptr (GHashTable) seen = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
      command_groups (commands[i], groups);
      for (const OptionGroup **group = groups; *group != NULL; group++)
        for (gsize j = 0; j < (*group)->n_options; j++)
          check_option (&(*group)->options[j], seen);
      g_assert_cmpuint (commands[i]->min_arguments, <=, commands[i]->max_arguments);
      g_assert_cmpuint (commands[i]->max_arguments, <=, COMMAND_MAX_ARGUMENTS);
      g_assert_cmpuint (commands[i]->n_examples, >, 0);
    }
}

static void
test_every_error_has_a_documented_status (void)
{
  for (int code = AM_ERROR_CANCELLED; code <= AM_ERROR_UNAUTHENTICATED; code++)
    {
      g_autoptr (GError) error = g_error_new (AM_ERROR, code, "x");
      gboolean documented = FALSE;
      for (gsize i = 0; i < n_exit_statuses; i++)
        documented = documented || exit_statuses[i].status == exit_status_of (error);
      g_assert_true (documented);
    }
  g_autoptr (GError) usage = NULL;
  cli_usage_fail (&usage, "x");
  g_assert_cmpint (exit_status_of (usage), ==, EXIT_STATUS_USAGE);
  g_assert_cmpint (exit_status_of (NULL), ==, 0);
}

static void
test_remedies (void)
{
  g_autoptr (GError) full = NULL, odd = NULL;
  am_fail (&full, AM_ERROR_RESOURCE_EXHAUSTED, "InsufficientStorage", "x");
  g_assert_nonnull (exit_remedy_of (full));
  am_fail (&odd, AM_ERROR_INTERNAL, NULL, "x");
  g_assert_null (exit_remedy_of (odd));
}

static void
test_targets (void)
{
  static const struct {
    const char *text, *host;
    gboolean plain_http;
  } rows[] = {
    { "model:v1", NULL, FALSE },
    { "localhost:5000/m", "localhost:5000", TRUE },
    { "127.1.2.3:80/m", "127.1.2.3:80", TRUE },
    { "[::1]:5000/m", "[::1]:5000", TRUE },
    { "https://localhost:5000/m", "localhost:5000", FALSE },
    { "http://reg.example/m", "reg.example", TRUE },
    { "reg.example/m", "reg.example", FALSE },
    { "127.evil.example/m", "127.evil.example", FALSE },
    { "128.0.0.1/m", "128.0.0.1", FALSE },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (Target) target = target_parse (rows[i].text, &error);
      g_assert_no_error (error);
      g_assert_cmpstr (target->reference->host, ==, rows[i].host);
      g_assert_cmpint (target->plain_http, ==, rows[i].plain_http);
    }
  g_autoptr (GError) error = NULL;
  g_assert_null (target_parse ("https://model", &error));
  g_assert_true (am_error_is (error, AM_ERROR_INVALID_ARGUMENT));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cli/command/tables", test_tables);
  g_test_add_func ("/cli/command/exit-statuses", test_every_error_has_a_documented_status);
  g_test_add_func ("/cli/command/remedies", test_remedies);
  g_test_add_func ("/cli/command/targets", test_targets);
  return g_test_run ();
}
