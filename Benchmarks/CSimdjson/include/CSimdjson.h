#ifndef C_SIMDJSON_H
#define C_SIMDJSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// The fields of a command that simdjson has parsed. The strings are not copied here: they point into the parser's memory.
struct CSimdjson_command {
    const char *app;
    size_t app_count;
    const char *activity;
    size_t activity_count;
    const char *identifier;
    size_t identifier_count;
    const char *event;
    size_t event_count;
    int64_t timestamp;
    uint64_t sequence;
    int64_t stale_date;
    int64_t priority;
    bool has_content_state;
    bool has_alert;
    bool has_payload;
};

struct CSimdjson_parser;

struct CSimdjson_parser *CSimdjson_parser_create(void);
void CSimdjson_parser_destroy(struct CSimdjson_parser *parser);

/// Copies the record into a padded buffer, because simdjson reads past the end, and parses it. Then reads each field of the record, of
/// `aps` and of `alert` once, and rejects unknown keys beside `aps`. Our decoder does more work: it also finds duplicate keys, checks the
/// limits of names, knows the position of a fault, keeps the raw bytes of `aps` and `payload`, and computes the digest.
bool CSimdjson_decode(
    struct CSimdjson_parser *parser, const char *record, size_t count, struct CSimdjson_command *command);

/// Copies and parses the record like ``CSimdjson_decode``, but reads no field.
bool CSimdjson_parse(struct CSimdjson_parser *parser, const char *record, size_t count);

/// Returns the name of the implementation that simdjson chose for this processor.
const char *CSimdjson_implementation(void);

#ifdef __cplusplus
}
#endif

#endif
