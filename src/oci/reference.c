#include "oci/reference.h"

#include <string.h>

#include "base/text.h"

static gboolean
is_name_char (char c)
{
  return g_ascii_islower (c) || g_ascii_isdigit (c);
}

/* Length of one separator of a name component at `text`: ".", "_", "__" or dashes; 0 when it is none. */
static gsize
separator_length (const char *text)
{
  if (text[0] == '.')
    return 1;
  if (text[0] == '_')
    return text[1] == '_' ? 2 : 1;
  return strspn (text, "-");
}

/* Walks one component; returns its length or 0 when the grammar does not hold. */
static gsize
component_length (const char *text)
{
  const char *at = text;
  while (TRUE)
    {
      if (!is_name_char (*at))
        return 0;
      while (is_name_char (*at))
        at++;
      if (*at == '\0' || *at == '/')
        return (gsize) (at - text);
      gsize separator = separator_length (at);
      if (separator == 0)
        return 0;
      at += separator;
    }
}

gboolean
repository_name_check (const char *name, GError **error)
{
  if (name == NULL || *name == '\0')
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "NAME_INVALID", "the repository name is empty");
  if (strlen (name) > REPOSITORY_NAME_MAX)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "NAME_INVALID", "the repository name is longer than %d bytes",
                    REPOSITORY_NAME_MAX);
  const char *at = name;
  while (TRUE)
    {
      gsize length = component_length (at);
      if (length == 0)
        break;
      if (at[length] == '\0')
        return TRUE;
      at += length + 1;
    }
  g_autofree char *shown = g_strescape (name, NULL);
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "NAME_INVALID",
                  "\"%s\" is no repository name: it takes lower-case letters and digits, with single '.', '_', "
                  "'__' or '-' between them, in parts separated by '/'",
                  shown);
}

gboolean
tag_name_check (const char *tag, GError **error)
{
  gsize length = tag == NULL ? 0 : strlen (tag);
  gboolean fine = length > 0 && length <= TAG_NAME_MAX && (g_ascii_isalnum (tag[0]) || tag[0] == '_');
  for (gsize i = 0; fine && i < length; i++)
    fine = g_ascii_isalnum (tag[i]) || strchr ("._-", tag[i]) != NULL;
  if (fine)
    return TRUE;
  g_autofree char *shown = g_strescape (tag == NULL ? "" : tag, NULL);
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "TAG_INVALID",
                  "\"%.140s\" is no tag: up to %d letters, digits, '_', '.' and '-', not beginning with '.' or '-'",
                  shown, TAG_NAME_MAX);
}

/* Dot-separated labels of letters, digits and inner dashes (underscores occur in practice). */
static gboolean
domain_is_valid (const char *domain)
{
  if (*domain == '\0')
    return FALSE;
  g_auto (GStrv) labels = g_strsplit (domain, ".", -1);
  for (guint i = 0; labels[i] != NULL; i++)
    {
      gsize length = strlen (labels[i]);
      if (length == 0 || length > 63 || labels[i][0] == '-' || labels[i][length - 1] == '-')
        return FALSE;
      for (gsize j = 0; j < length; j++)
        if (!g_ascii_isalnum (labels[i][j]) && labels[i][j] != '-' && labels[i][j] != '_')
          return FALSE;
    }
  return TRUE;
}

static gboolean
port_is_valid (const char *port)
{
  guint64 number = 0;
  return strlen (port) <= 5 && text_parse_u64 (port, &number) && number >= 1 && number <= 65535;
}

gboolean
registry_host_check (const char *host, GError **error)
{
  g_autofree char *copy = g_strdup (host == NULL ? "" : host);
  char *port = NULL;
  gboolean fine = FALSE;
  if (copy[0] == '[')
    {
      char *end = strchr (copy, ']');
      fine = end != NULL && end > copy + 1
             && strspn (copy + 1, "0123456789abcdefABCDEF:.") == (gsize) (end - copy - 1)
             && (end[1] == '\0' || end[1] == ':');
      port = fine && end[1] == ':' ? end + 2 : NULL;
    }
  else
    {
      char *colon = strchr (copy, ':');
      port = colon == NULL ? NULL : colon + 1;
      if (colon != NULL)
        *colon = '\0';
      fine = domain_is_valid (copy);
    }
  if (fine && (port == NULL || port_is_valid (port)))
    return TRUE;
  g_autofree char *shown = g_strescape (host == NULL ? "" : host, NULL);
  return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "NAME_INVALID",
                  "\"%.255s\" is no registry host: give it as host or host:port, without https:// and without user "
                  "and password",
                  shown);
}

static gboolean
component_is_host (const char *component)
{
  return strpbrk (component, ".:[") != NULL || strcmp (component, "localhost") == 0;
}

/* The usual mistakes, told before the grammar gives a drier answer. */
static gboolean
check_obvious (const char *text, GError **error)
{
  if (text == NULL || *text == '\0')
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "NAME_INVALID",
                    "the reference is empty; give [host[:port]/]name[:tag][@digest]");
  if (strlen (text) > REPOSITORY_NAME_MAX + 1 + TAG_NAME_MAX + 1 + DIGEST_STRING_SIZE)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "NAME_INVALID", "the reference is too long");
  if (strstr (text, "://") != NULL)
    return am_fail (error, AM_ERROR_INVALID_ARGUMENT, "NAME_INVALID",
                    "a reference has no \"%.*s\" in front; give [host[:port]/]name[:tag][@digest]",
                    (int) MIN (strcspn (text, ":") + 3, 16), text);
  return TRUE;
}

/* Cuts "@digest" and ":tag" off `rest`, which keeps the host and the name. */
static gboolean
take_suffixes (Reference *self, char *rest, GError **error)
{
  char *at = strchr (rest, '@');
  if (at != NULL)
    {
      *at = '\0';
      if (!digest_parse (at + 1, &self->digest, error))
        return FALSE;
      self->has_digest = TRUE;
    }
  char *slash = strrchr (rest, '/');
  char *colon = strchr (slash == NULL ? rest : slash, ':');
  if (colon != NULL)
    {
      *colon = '\0';
      if (!tag_name_check (colon + 1, error))
        return FALSE;
      self->tag = g_strdup (colon + 1);
    }
  else if (!self->has_digest)
    self->tag = g_strdup (TAG_DEFAULT);
  return TRUE;
}

Reference *
reference_parse (const char *text, GError **error)
{
  if (!check_obvious (text, error))
    return NULL;
  g_autoptr (Reference) self = g_new0 (Reference, 1);
  g_autofree char *rest = g_strdup (text);
  if (!take_suffixes (self, rest, error))
    return NULL;
  char *name = rest;
  char *slash = strchr (rest, '/');
  if (slash != NULL)
    {
      g_autofree char *first = g_strndup (rest, (gsize) (slash - rest));
      if (component_is_host (first))
        {
          if (!registry_host_check (first, error))
            return NULL;
          self->host = g_steal_pointer (&first);
          name = slash + 1;
        }
    }
  if (!repository_name_check (name, error))
    return NULL;
  if (strlen (rest) > REPOSITORY_NAME_MAX)
    return am_fail_null (error, AM_ERROR_INVALID_ARGUMENT, "NAME_INVALID",
                         "host and repository name together are longer than %d bytes", REPOSITORY_NAME_MAX);
  self->name = g_strdup (name);
  return g_steal_pointer (&self);
}

void
reference_free (Reference *self)
{
  if (self == NULL)
    return;
  g_free (self->host);
  g_free (self->name);
  g_free (self->tag);
  g_free (self);
}

char *
reference_to_string (const Reference *self)
{
  char digest[DIGEST_STRING_SIZE] = "";
  if (self->has_digest)
    digest_format (&self->digest, digest);
  return g_strconcat (self->host == NULL ? "" : self->host, self->host == NULL ? "" : "/", self->name,
                      self->tag == NULL ? "" : ":", self->tag == NULL ? "" : self->tag, self->has_digest ? "@" : "",
                      digest, NULL);
}

char *
reference_selector (const Reference *self)
{
  return self->has_digest ? digest_to_string (&self->digest) : g_strdup (self->tag);
}

gboolean
reference_selector_parse (const char *text, gboolean *out_is_digest, Digest *out_digest, GError **error)
{
  gboolean is_digest = text != NULL && strchr (text, ':') != NULL;
  if (is_digest ? !digest_parse (text, out_digest, error) : !tag_name_check (text, error))
    return FALSE;
  *out_is_digest = is_digest;
  return TRUE;
}
