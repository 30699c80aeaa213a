/* What an S3 store answers in XML: errors, listings, results of batch deletes. Over expat; no DTDs and no entities
 * but XML's five, and limits on everything. Pure; used by s3_client and object_store_s3. */
#pragma once

#include "storage/object_parts.h"

#define S3_XML_MAX_BYTES (8u << 20)
#define S3_XML_MAX_KEYS 1000

typedef struct {
  char *code, *message; /* code is never NULL */
  char *region;         /* the one that should have been signed for; or NULL */
} S3Error;

void s3_error_clear (S3Error *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (S3Error, s3_error_clear)
/* FALSE when the text is no whole <Error> document. */
gboolean s3_error_parse (const char *text, gsize size, S3Error *out_error);

typedef struct {
  char *key;
  guint64 size_bytes;
  gint64 modified_ms;
} S3Object;

typedef struct {
  GArray *objects;    /* S3Object */
  GPtrArray *folders; /* common prefixes, char* */
  char *next_token;   /* NULL: this was the last page */
} S3Listing;

void s3_listing_clear (S3Listing *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (S3Listing, s3_listing_clear)
/* A ListBucketResult whose keys are percent-encoded (encoding-type=url). DATA_LOSS when it is something else, cut
 * short, larger than the limits, or has a value that cannot be true. */
gboolean s3_listing_parse (const char *text, gsize size, S3Listing *out_listing, GError **error);

/* A DeleteResult: TRUE when every key is gone. UNAVAILABLE with the first key that is not, DATA_LOSS as above. */
gboolean s3_delete_result_check (const char *text, gsize size, GError **error);
typedef struct {
  char *key, *id;
  gint64 begun_ms;
} S3Upload;

typedef struct {
  GArray *uploads;          /* S3Upload */
  char *next_key, *next_id; /* where the next page begins; NULL: this was the last */
} S3Uploads;

void s3_uploads_clear (S3Uploads *self);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (S3Uploads, s3_uploads_clear)
/* A ListMultipartUploadsResult; errors as those of s3_listing_parse. */
gboolean s3_uploads_parse (const char *text, gsize size, S3Uploads *out_uploads, GError **error);

/* Appends the ObjectPart of a ListPartsResult to `parts`, at most OBJECT_PARTS_MAX in all; `*out_next`: the number behind
 * which the next page begins, 0 when this was the last. Errors as those of s3_listing_parse; what was appended stays. */
gboolean s3_parts_parse (const char *text, gsize size, GPtrArray *parts, guint *out_next, GError **error);

/* The text of the first element at `path` ("Root/Name") of a whole document whose root it names; or NULL. Caller frees. */
char *s3_xml_value (const char *text, gsize size, const char *path);
/* TRUE for a whole document with this root: an answer whose status was sent before the work was done. */
gboolean s3_xml_is (const char *text, gsize size, const char *root);
