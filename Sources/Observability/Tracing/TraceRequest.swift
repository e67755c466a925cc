/// The body of a request to a collector, in OpenTelemetry's JSON form (OTLP 1.x, ExportTraceServiceRequest). The
/// properties have the protocol's names. Ids are hexadecimal, and 64-bit numbers are strings.
struct TraceRequest: Encodable {
    var resourceSpans: [ResourceSpans]

    struct ResourceSpans: Encodable {
        var resource: Resource
        var scopeSpans: [ScopeSpans]
    }

    struct Resource: Encodable {
        var attributes: [Attribute]
    }

    struct ScopeSpans: Encodable {
        var scope: Scope
        var spans: [Span]
    }

    struct Scope: Encodable {
        var name: String
    }

    struct Span: Encodable {
        enum Kind: Int, Encodable {
            case `internal` = 1
            case client = 3
            case consumer = 5
        }

        var traceId: String
        var spanId: String
        var parentSpanId: String?
        var flags: UInt32
        var name: String
        var kind: Kind
        var startTimeUnixNano: String
        var endTimeUnixNano: String
        var attributes: [Attribute]
        var status: Status?
    }

    struct Status: Encodable {
        var code: Int

        static let error = Status(code: 2)
    }

    struct Attribute: Encodable {
        /// The value of an attribute: a text or an integer. Exactly one of the two properties is set.
        struct Value: Encodable {
            var stringValue: String?
            var intValue: String?
        }

        var key: String
        var value: Value

        init(_ key: String, _ value: String) {
            self.key = key
            self.value = Value(stringValue: value)
        }

        init(_ key: String, _ value: Int64) {
            self.key = key
            self.value = Value(intValue: "\(value)")
        }
    }
}
