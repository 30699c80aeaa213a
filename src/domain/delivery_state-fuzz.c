/* Any text as the annotations, a line each: no state, or one that is written as it was read. Signed by nobody. */
#include "domain/delivery_state.h"

#include "domain/model_references.h"

int LLVMFuzzerTestOneInput (const guint8 *data, gsize size);

int
LLVMFuzzerTestOneInput (const guint8 *data, gsize size)
{
  guint8 key[DELIVERY_KEY_SIZE];
  g_autofree char *text = g_strndup ((const char *) data, size);
  g_auto (GStrv) lines = g_strsplit (text, "\n", DELIVERY_N_ANNOTATIONS);
  DeliveryAnnotations annotations = { 0 };
  for (guint i = 0; i < DELIVERY_N_ANNOTATIONS && lines[i] != NULL; i++)
    annotations.values[i] = lines[i][0] != '\0' ? lines[i] : NULL;
  delivery_key ("salt", key);
  g_assert_false (delivery_annotations_are_signed (&annotations, "team", key));
  g_auto (DeliveryState) state = { 0 };
  if (!delivery_state_read (&annotations, &state, NULL))
    return 0;
  g_assert_true (state.models->len > 0 && state.models->len <= MODEL_REFERENCES_MAX);
  g_assert_true (delivery_annotations_are_present (&annotations));
  g_auto (DeliveryAnnotations) written = { 0 };
  delivery_state_write (&state, "team", key, &written);
  g_assert_true (delivery_annotations_are_signed (&written, "team", key));
  for (guint i = 0; i < DELIVERED_SIGNATURE; i++)
    g_assert_cmpstr (written.values[i], ==, annotations.values[i]);
  return 0;
}
