#include "domain/storage_verdict.h"

#include <string.h>

#define N_CLASSES 4

/* The cluster: letters of its classes, upper case for a default, '~' after one that defers. */
static gsize
classes_of (const char *text, StorageClassView *out_classes)
{
  static const char *const names[] = { "a", "b", "c", "d" };
  gsize n = 0;
  for (const char *c = text; *c != '\0'; c++)
    if (*c == '~')
      out_classes[n - 1].defers_binding = TRUE;
    else
      out_classes[n++] = (StorageClassView){ names[g_ascii_tolower (*c) - 'a'], g_ascii_isupper (*c) != 0, FALSE };
  return n;
}

static const struct {
  StorageClassSettings settings;
  const char *classes;
  StorageClassFinding finding;
  const char *name, *reason, *message;
} rows[] = {
  { { "a", "b", "c" }, "abcD", STORAGE_CLASS_FINE, "a", "Satisfied", NULL },
  { { NULL, "b", "c" }, "abcD", STORAGE_CLASS_FINE, "b", "Satisfied", NULL },
  { { "", "", "c" }, "abcD", STORAGE_CLASS_FINE, "c", "Satisfied", NULL },
  { { NULL, NULL, NULL }, "abcD", STORAGE_CLASS_FINE, "d", "Satisfied", NULL },
  { { "a", NULL, NULL }, "aBC", STORAGE_CLASS_FINE, "a", "Satisfied", NULL }, /* two defaults do not matter */
  { { NULL, NULL, NULL }, "abc", STORAGE_CLASS_NONE, NULL, "StorageClassMissing", "no default one" },
  { { NULL, NULL, NULL }, "", STORAGE_CLASS_NONE, NULL, "StorageClassMissing", "no StorageClass is chosen" },
  { { "d", NULL, NULL }, "Abc", STORAGE_CLASS_UNKNOWN, "d", "StorageClassMissing", "StorageClass d does not exist" },
  { { NULL, "d", "a" }, "Abc", STORAGE_CLASS_UNKNOWN, "d", "StorageClassMissing", "StorageClass d does not" },
  { { NULL, NULL, "d" }, "", STORAGE_CLASS_UNKNOWN, "d", "StorageClassMissing", "StorageClass d does not" },
  { { NULL, NULL, NULL }, "AbC", STORAGE_CLASS_AMBIGUOUS, NULL, "StorageClassAmbiguous", "several" },
  { { NULL, NULL, NULL }, "A~BC", STORAGE_CLASS_AMBIGUOUS, NULL, "StorageClassAmbiguous", "several" },
  { { "b", NULL, NULL }, "Ab~", STORAGE_CLASS_DEFERS, "b", "StorageClassDefersBinding", "StorageClass b binds" },
  { { NULL, NULL, NULL }, "A~b", STORAGE_CLASS_DEFERS, "a", "StorageClassDefersBinding", "Immediate" },
  { { "b", NULL, NULL }, "A~b", STORAGE_CLASS_FINE, "b", "Satisfied", NULL },
};

static void
test_choice (void)
{
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      StorageClassView classes[N_CLASSES] = { 0 };
      gsize n = classes_of (rows[i].classes, classes);
      StorageView seen = { TRUE, storage_class_choose (&rows[i].settings, classes, n), FALSE };
      g_autofree char *message = storage_class_message (&seen.choice);
      StorageVerdict verdict = storage_verdict (DELIVERY_SHARED_PVC, &seen);
      g_test_message ("%s: %s", rows[i].classes, message != NULL ? message : "fine");
      g_assert_cmpint (seen.choice.finding, ==, rows[i].finding);
      g_assert_cmpstr (seen.choice.name, ==, rows[i].name);
      g_assert_true (rows[i].message == NULL ? message == NULL : strstr (message, rows[i].message) != NULL);
      g_assert_cmpstr (verdict.reason, ==, rows[i].reason);
      g_assert_cmpstr (verdict.delivery_type, ==, "SharedPVC");
      g_assert_cmpint (verdict.is_satisfied, ==, rows[i].finding == STORAGE_CLASS_FINE);
    }
}

static void
test_verdict (void)
{
  static const struct {
    DeliveryMode mode;
    StorageView seen;
    gboolean is_satisfied;
    const char *type, *reason;
  } cases[] = {
    { DELIVERY_SHARED_PVC,
      { .is_known = TRUE, .choice = { STORAGE_CLASS_FINE, "a" } },
      TRUE,
      "SharedPVC",
      "Satisfied" },
    { DELIVERY_SHARED_PVC,
      { .is_known = FALSE, .choice = { STORAGE_CLASS_FINE, "a" } },
      FALSE,
      "SharedPVC",
      "CheckFailed" },
    { DELIVERY_NODE_CACHE,
      { .is_known = TRUE, .has_local_storage = TRUE, .choice = { STORAGE_CLASS_NONE, NULL } },
      TRUE,
      "NodeCache",
      "Satisfied" },
    { DELIVERY_NODE_CACHE,
      { .is_known = TRUE, .choice = { STORAGE_CLASS_FINE, "a" } },
      FALSE,
      "NodeCache",
      "LocalStorageClassMissing" },
    { DELIVERY_NODE_CACHE, { .is_known = FALSE, .has_local_storage = TRUE }, FALSE, "NodeCache", "CheckFailed" },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      StorageVerdict verdict = storage_verdict (cases[i].mode, &cases[i].seen);
      g_assert_cmpint (verdict.is_satisfied, ==, cases[i].is_satisfied);
      g_assert_cmpstr (verdict.delivery_type, ==, cases[i].type);
      g_assert_cmpstr (verdict.reason, ==, cases[i].reason);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/storage-verdict/choice", test_choice);
  g_test_add_func ("/storage-verdict/verdict", test_verdict);
  return g_test_run ();
}
