#include "CSimdjson.h"

#include <cstring>
#include <new>
#include <simdjson.h>
#include <string>
#include <string_view>

using namespace simdjson;

static const size_t record_bytes = 65536;

struct CSimdjson_parser {
    dom::parser parser;
    char padded[record_bytes + SIMDJSON_PADDING];
};

extern "C" struct CSimdjson_parser *CSimdjson_parser_create(void) {
    auto *parser = new (std::nothrow) CSimdjson_parser;
    if (parser && parser->parser.allocate(record_bytes) != SUCCESS) {
        delete parser;
        return nullptr;
    }
    return parser;
}

extern "C" void CSimdjson_parser_destroy(struct CSimdjson_parser *parser) { delete parser; }

static error_code parse(CSimdjson_parser *parser, const char *record, size_t count, dom::element &root) {
    if (count > record_bytes) return CAPACITY;
    std::memcpy(parser->padded, record, count);
    return parser->parser.parse(parser->padded, count, false).get(root);
}

extern "C" bool CSimdjson_parse(struct CSimdjson_parser *parser, const char *record, size_t count) {
    dom::element root;
    return parse(parser, record, count, root) == SUCCESS;
}

static bool text(dom::element value, const char *&start, size_t &count) {
    std::string_view view;
    if (value.get(view) != SUCCESS) return false;
    start = view.data();
    count = view.size();
    return true;
}

static bool decode_alert(dom::element value) {
    dom::object object;
    if (value.get(object) != SUCCESS) return false;
    for (auto member : object) {
        std::string_view inner;
        if (member.key == "title" || member.key == "body" || member.key == "sound") {
            if (member.value.get(inner) != SUCCESS) return false;
        }
    }
    return true;
}

static bool decode_aps(dom::element value, CSimdjson_command *command) {
    dom::object object;
    if (value.get(object) != SUCCESS) return false;
    for (auto member : object) {
        if (member.key == "event") {
            if (!text(member.value, command->event, command->event_count)) return false;
        } else if (member.key == "timestamp") {
            if (member.value.get(command->timestamp) != SUCCESS) return false;
        } else if (member.key == "content-state") {
            command->has_content_state = member.value.is_object();
        } else if (member.key == "stale-date") {
            if (member.value.get(command->stale_date) != SUCCESS) return false;
        } else if (member.key == "relevance-score") {
            double score;
            if (member.value.get(score) != SUCCESS) return false;
        } else if (member.key == "alert") {
            command->has_alert = true;
            if (!decode_alert(member.value)) return false;
        }
    }
    return true;
}

extern "C" bool CSimdjson_decode(
    struct CSimdjson_parser *parser, const char *record, size_t count, struct CSimdjson_command *command) {
    dom::element root;
    dom::object object;
    if (parse(parser, record, count, root) != SUCCESS || root.get(object) != SUCCESS) return false;
    for (auto member : object) {
        bool is_valid;
        if (member.key == "app") {
            is_valid = text(member.value, command->app, command->app_count);
        } else if (member.key == "activity") {
            is_valid = text(member.value, command->activity, command->activity_count);
        } else if (member.key == "id") {
            is_valid = text(member.value, command->identifier, command->identifier_count);
        } else if (member.key == "sequence") {
            is_valid = member.value.get(command->sequence) == SUCCESS;
        } else if (member.key == "priority") {
            is_valid = member.value.get(command->priority) == SUCCESS;
        } else if (member.key == "aps") {
            is_valid = decode_aps(member.value, command);
        } else if (member.key == "payload") {
            is_valid = command->has_payload = member.value.is_object();
        } else {
            is_valid = false;
        }
        if (!is_valid) return false;
    }
    return command->app != nullptr && command->event != nullptr;
}

extern "C" const char *CSimdjson_implementation(void) {
    static const std::string name = get_active_implementation()->name();
    return name.c_str();
}
