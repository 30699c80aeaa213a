#include "domain/delivery_state.h"

#include <string.h>

#define ONE "sha256:1111111111111111111111111111111111111111111111111111111111111111"
#define TWO "sha256:2222222222222222222222222222222222222222222222222222222222222222"

static const DeliveredModel minilm = { (char *) "minilm", (char *) "r/minilm@" ONE, (char *) ONE, (char *) "bert",
                                       7 };
static const DeliveredModel other = { (char *) "b.c", (char *) "r/b.c@" TWO, (char *) TWO, NULL, 0 };

static DeliveryState
state_of (DeliveryMode mode, const DeliveredModel *first, const DeliveredModel *second)
{
  DeliveryState state;
  delivery_state_init (&state, mode);
  delivery_state_add (&state, first);
  if (second != NULL)
    delivery_state_add (&state, second);
  return state;
}

static void
assert_values (const DeliveryAnnotations *annotations, const char *const expected[DELIVERY_N_ANNOTATIONS])
{
  for (guint i = 0; i < DELIVERY_N_ANNOTATIONS; i++)
    g_assert_cmpstr (annotations->values[i], ==, expected[i]);
}

/* The signatures by another program: Python's hmac. */
static void
test_written (void)
{
  static const char *const shared[] = {
    ONE,
    "r/minilm@" ONE,
    "bert",
    "SharedPVC",
    "RWXSharedVolume",
    "[{\"name\":\"minilm\",\"uri\":\"r/minilm@" ONE "\",\"digest\":\"" ONE "\",\"family\":\"bert\",\"sizeBytes\":7},"
    "{\"name\":\"b.c\",\"uri\":\"r/b.c@" TWO "\",\"digest\":\"" TWO "\"}]",
    "hmac-sha256:9fe602e942208ae3181b9d69ca040acb643b0b0f23a3bb1a98ed529d6e3f64f0",
  };
  static const char *const cached[] = {
    TWO,         "r/b.c@" TWO,       NULL,
    "NodeCache", "NodeCacheRuntime", "[{\"name\":\"b.c\",\"uri\":\"r/b.c@" TWO "\",\"digest\":\"" TWO "\"}]",
    NULL,
  };
  guint8 key[DELIVERY_KEY_SIZE];
  delivery_key ("salt", key);
  g_auto (DeliveryState) two = state_of (DELIVERY_SHARED_PVC, &minilm, &other);
  g_auto (DeliveryState) one = state_of (DELIVERY_NODE_CACHE, &other, NULL);
  g_auto (DeliveryAnnotations) first = { 0 }, second = { 0 };
  delivery_state_write (&two, " team\n", key, &first);
  delivery_state_write (&one, "team", NULL, &second);
  assert_values (&first, shared);
  assert_values (&second, cached);
}

static void
test_round_trip (void)
{
  const DeliveryState states[] = {
    state_of (DELIVERY_SHARED_PVC, &minilm, NULL),   state_of (DELIVERY_NODE_CACHE, &minilm, NULL),
    state_of (DELIVERY_SHARED_PVC, &other, NULL),    state_of (DELIVERY_SHARED_PVC, &minilm, &other),
    state_of (DELIVERY_SHARED_PVC, &other, &minilm),
  };
  for (gsize i = 0; i < G_N_ELEMENTS (states); i++)
    {
      g_auto (DeliveryAnnotations) annotations = { 0 };
      g_auto (DeliveryState) back = { 0 };
      g_autoptr (GError) error = NULL;
      delivery_state_write (&states[i], "team", NULL, &annotations);
      g_assert_true (delivery_state_read (&annotations, &back, &error));
      for (gsize k = 0; k < G_N_ELEMENTS (states); k++)
        g_assert_cmpint (delivery_state_equal (&back, &states[k]), ==, i == k);
    }
  for (gsize i = 0; i < G_N_ELEMENTS (states); i++)
    {
      DeliveryState state = states[i];
      delivery_state_clear (&state);
    }
}

/* Every member of a model counts. */
static void
test_equal (void)
{
  static const DeliveredModel rows[] = {
    { (char *) "x", (char *) "r/minilm@" ONE, (char *) ONE, (char *) "bert", 7 },
    { (char *) "minilm", (char *) "x", (char *) ONE, (char *) "bert", 7 },
    { (char *) "minilm", (char *) "r/minilm@" ONE, (char *) TWO, (char *) "bert", 7 },
    { (char *) "minilm", (char *) "r/minilm@" ONE, (char *) ONE, NULL, 7 },
    { (char *) "minilm", (char *) "r/minilm@" ONE, (char *) ONE, (char *) "bert", 8 },
  };
  g_auto (DeliveryState) state = state_of (DELIVERY_SHARED_PVC, &minilm, NULL);
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_auto (DeliveryState) changed = state_of (DELIVERY_SHARED_PVC, &rows[i], NULL);
      g_assert_false (delivery_state_equal (&state, &changed));
    }
}

#define MODEL "{\"name\":\"m\",\"uri\":\"u\",\"digest\":\"" ONE "\"}"

/* What somebody else wrote. */
static void
test_refused (void)
{
  static const DeliveryAnnotations rows[] = {
    { { NULL } },
    { { (char *) ONE, (char *) "u", NULL, (char *) "SharedPVC", (char *) "RWXSharedVolume", NULL } },
    { { (char *) ONE, (char *) "u", NULL, (char *) "SharedPVC", (char *) "RWXSharedVolume", (char *) "[]" } },
    { { (char *) ONE, (char *) "u", NULL, (char *) "SharedPVC", (char *) "RWXSharedVolume", (char *) "{}" } },
    { { (char *) ONE, (char *) "u", NULL, (char *) "SharedPVC", (char *) "RWXSharedVolume", (char *) "[" MODEL } },
    { { (char *) ONE, (char *) "u", NULL, (char *) "SharedPVC", (char *) "RWXSharedVolume", (char *) "[7]" } },
    { { (char *) ONE, (char *) "u", NULL, (char *) "SharedPVC", (char *) "RWXSharedVolume", (char *) "[{}]" } },
    { { (char *) "sha256:1", (char *) "u", NULL, (char *) "SharedPVC", (char *) "RWXSharedVolume",
        (char *) "[{\"name\":\"m\",\"uri\":\"u\",\"digest\":\"sha256:1\"}]" } },
    { { (char *) TWO, (char *) "u", NULL, (char *) "SharedPVC", (char *) "RWXSharedVolume",
        (char *) "[" MODEL "]" } },
    { { (char *) ONE, (char *) "v", NULL, (char *) "SharedPVC", (char *) "RWXSharedVolume",
        (char *) "[" MODEL "]" } },
    { { (char *) ONE, (char *) "u", (char *) "f", (char *) "SharedPVC", (char *) "RWXSharedVolume",
        (char *) "[" MODEL "]" } },
    { { (char *) ONE, (char *) "u", NULL, (char *) "SharedDirect", (char *) "RWXSharedVolume",
        (char *) "[" MODEL "]" } },
    { { (char *) ONE, (char *) "u", NULL, (char *) "SharedPVC", (char *) "NodeCacheRuntime",
        (char *) "[" MODEL "]" } },
    { { (char *) ONE, (char *) "u", NULL, (char *) "SharedPVC", NULL, (char *) "[" MODEL "]" } },
    { { NULL, (char *) "u", NULL, (char *) "SharedPVC", (char *) "RWXSharedVolume", (char *) "[" MODEL "]" } },
    { { (char *) ONE, (char *) "u", NULL, (char *) "SharedPVC", (char *) "RWXSharedVolume",
        (char *) "[ " MODEL " ]" } },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      DeliveryState state = { 0 };
      g_autoptr (GError) error = NULL;
      g_test_message ("%" G_GSIZE_FORMAT, i);
      g_assert_false (delivery_state_read (&rows[i], &state, &error));
      g_assert_true (am_error_is (error, AM_ERROR_INVALID_ARGUMENT));
      g_assert_null (state.models);
    }
  static const DeliveryAnnotations good = { { (char *) ONE, (char *) "u", NULL, (char *) "SharedPVC",
                                              (char *) "RWXSharedVolume", (char *) "[" MODEL "]" } };
  g_auto (DeliveryState) state = { 0 };
  g_assert_true (delivery_state_read (&good, &state, NULL));
}

static void
test_too_many (void)
{
  g_auto (DeliveryState) state = { 0 };
  delivery_state_init (&state, DELIVERY_SHARED_PVC);
  for (guint i = 0; i < 65; i++)
    {
      g_auto (DeliveryAnnotations) annotations = { 0 };
      g_auto (DeliveryState) back = { 0 };
      delivery_state_add (&state, &minilm);
      delivery_state_write (&state, "team", NULL, &annotations);
      g_assert_cmpint (delivery_state_read (&annotations, &back, NULL), ==, i < 64);
    }
}

static void
test_present (void)
{
  static const struct {
    DeliveryAnnotations annotations;
    gboolean is_present;
  } rows[] = {
    { { { NULL } }, FALSE },
    { { { (char *) "", NULL, NULL, (char *) "", NULL, (char *) "" } }, FALSE },
    { { { NULL, (char *) "u", (char *) "f", NULL, (char *) "r", NULL, (char *) "s" } }, FALSE },
    { { { (char *) "d" } }, TRUE },
    { { { [DELIVERED_MODE] = (char *) "m" } }, TRUE },
    { { { [DELIVERED_MODELS] = (char *) "[]" } }, TRUE },
  };
  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    g_assert_cmpint (delivery_annotations_are_present (&rows[i].annotations), ==, rows[i].is_present);
}

/* Whatever is changed, the controller did not write it: another namespace, another key, any character of any value. */
static void
test_signature (void)
{
  guint8 key[DELIVERY_KEY_SIZE], other_key[DELIVERY_KEY_SIZE];
  delivery_key ("salt", key);
  delivery_key ("pepper", other_key);
  g_auto (DeliveryState) state = state_of (DELIVERY_NODE_CACHE, &minilm, &other);
  g_auto (DeliveryAnnotations) annotations = { 0 };
  delivery_state_write (&state, "team", key, &annotations);
  g_assert_true (delivery_annotations_are_signed (&annotations, "team", key));
  g_assert_false (delivery_annotations_are_signed (&annotations, "tea", key));
  g_assert_false (delivery_annotations_are_signed (&annotations, "team", other_key));
  for (guint i = 0; i < DELIVERY_N_ANNOTATIONS; i++)
    for (char *c = annotations.values[i]; *c != '\0'; c++)
      {
        *c = (char) (*c ^ 1);
        g_assert_false (delivery_annotations_are_signed (&annotations, "team", key));
        *c = (char) (*c ^ 1);
      }
  g_assert_true (delivery_annotations_are_signed (&annotations, "team", key));
  g_clear_pointer (&annotations.values[DELIVERED_SIGNATURE], g_free);
  g_assert_false (delivery_annotations_are_signed (&annotations, "team", key));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/delivery-state/written", test_written);
  g_test_add_func ("/delivery-state/round-trip", test_round_trip);
  g_test_add_func ("/delivery-state/equal", test_equal);
  g_test_add_func ("/delivery-state/refused", test_refused);
  g_test_add_func ("/delivery-state/too-many", test_too_many);
  g_test_add_func ("/delivery-state/present", test_present);
  g_test_add_func ("/delivery-state/signature", test_signature);
  return g_test_run ();
}
