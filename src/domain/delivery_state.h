/* What a Pod template says of the models it was given: names-and-delivery-contract.md, "Pod-template annotations written by
 * the controller" and "Signature scheme". Pure. Written by the webhook and the reconciler, read by them and by the node
 * cache, which trusts only what is signed. */
#pragma once

#include "base/error.h"

#define DELIVERY_KEY_SIZE 32

typedef enum { DELIVERY_SHARED_PVC, DELIVERY_NODE_CACHE } DeliveryMode;

/* "SharedPVC": also the setting delivery.type. */
const char *delivery_mode_name (DeliveryMode mode);

typedef struct {
  char *name, *uri, *digest;
  char *family;       /* NULL when unknown */
  guint64 size_bytes; /* 0 when unknown */
} DeliveredModel;

typedef struct {
  DeliveryMode mode;
  GPtrArray *models; /* of DeliveredModel, in the order of the references; at least one */
} DeliveryState;

/* Without models. */
void delivery_state_init (DeliveryState *self, DeliveryMode mode);
/* Copies the texts. */
void delivery_state_add (DeliveryState *self, const DeliveredModel *model);
void delivery_state_clear (DeliveryState *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (DeliveryState, delivery_state_clear)
/* The same mode, and the same models in the same order with all that is said of them. */
gboolean delivery_state_equal (const DeliveryState *a, const DeliveryState *b);

/* The annotations, in the order in which they are signed; the signature comes last. */
typedef enum {
  DELIVERED_DIGEST,
  DELIVERED_URI,
  DELIVERED_FAMILY,
  DELIVERED_MODE,
  DELIVERED_REASON,
  DELIVERED_MODELS,
  DELIVERED_SIGNATURE,
} DeliveryAnnotation;
#define DELIVERY_N_ANNOTATIONS 7

extern const char *const delivery_annotation_names[DELIVERY_N_ANNOTATIONS];

typedef struct {
  char *values[DELIVERY_N_ANNOTATIONS]; /* NULL: absent */
} DeliveryAnnotations;

void delivery_annotations_clear (DeliveryAnnotations *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (DeliveryAnnotations, delivery_annotations_clear)
/* One of digest, mode and models has a value. */
gboolean delivery_annotations_are_present (const DeliveryAnnotations *self);

/* The key that a salt stands for: one secret serves several purposes, none of which can forge another. */
void delivery_key (const char *salt, guint8 out_key[DELIVERY_KEY_SIZE]);
/* `key` NULL: without a signature. */
void delivery_state_write (const DeliveryState *self, const char *namespace, const guint8 key[DELIVERY_KEY_SIZE],
                           DeliveryAnnotations *out_annotations);
/* INVALID_ARGUMENT for what delivery_state_write would not have written, but for the signature, which is not looked at. */
gboolean delivery_state_read (const DeliveryAnnotations *annotations, DeliveryState *out_state, GError **error);
/* Whether the controller wrote these for this namespace. */
gboolean delivery_annotations_are_signed (const DeliveryAnnotations *self, const char *namespace,
                                          const guint8 key[DELIVERY_KEY_SIZE]);
