import CNghttp2

/// Makes the header fields of responses.
///
/// nghttp2 does not copy names and values, so they must be valid until the frame is sent. They are constants, or are in
/// the memory of the request, which is kept until the request's stream is closed.
final class ResponseFields {
    private static let fieldsMax = 3

    private let fields = UnsafeMutablePointer<nghttp2_nv>.allocate(capacity: ResponseFields.fieldsMax)
    private let statusFields: [nghttp2_nv]
    private let successStatusFields: [nghttp2_nv]
    private let earlyHintsStatusField = ResponseFields.field(
        ResponseFields.bytes(":status"),
        ResponseFields.bytes("103"),
        isIndexed: false
    )
    private let identifierFieldName = ResponseFields.bytes("apns-id")
    private let uniqueIdentifierFieldName = ResponseFields.bytes("apns-unique-id")
    private let requestIdentifierFieldName = ResponseFields.bytes("apns-request-id")
    private let channelFieldName = ResponseFields.bytes("apns-channel-id")

    init() {
        fields.initialize(repeating: nghttp2_nv(), count: Self.fieldsMax)
        let name = Self.bytes(":status")
        statusFields = SimulatedResponse.allCases.map { response in
            Self.field(name, Self.bytes(Self.statusText(response.status)), isIndexed: true)
        }
        successStatusFields = SuccessStatus.allCases.map { status in
            Self.field(name, Self.bytes(Self.statusText(status.statusCode)), isIndexed: true)
        }
    }

    deinit {
        fields.deallocate()
    }

    /// Returns the fields of the response to a device push. They are valid until this object makes the next fields.
    func makeFields(
        _ response: SimulatedResponse,
        identifier: UnsafeRawBufferPointer,
        uniqueIdentifier: UnsafeRawBufferPointer?
    ) -> UnsafeMutableBufferPointer<nghttp2_nv> {
        fields[0] = statusFields[Int(response.rawValue)]
        fields[1] = Self.field(identifierFieldName, identifier, isIndexed: false)
        guard let uniqueIdentifier else { return UnsafeMutableBufferPointer(start: fields, count: 2) }
        fields[2] = Self.field(uniqueIdentifierFieldName, uniqueIdentifier, isIndexed: false)
        return UnsafeMutableBufferPointer(start: fields, count: 3)
    }

    /// Returns the fields of a response about a broadcast or a channel. They are valid until this object makes the next
    /// fields.
    func makeFields(
        _ response: SimulatedResponse,
        _ status: SuccessStatus,
        requestIdentifier: UnsafeRawBufferPointer,
        channel: UnsafeRawBufferPointer
    ) -> UnsafeMutableBufferPointer<nghttp2_nv> {
        fields[0] =
            response == .success ? successStatusFields[Int(status.rawValue)] : statusFields[Int(response.rawValue)]
        fields[1] = Self.field(requestIdentifierFieldName, requestIdentifier, isIndexed: false)
        guard response == .success, status == .created else {
            return UnsafeMutableBufferPointer(start: fields, count: 2)
        }
        fields[2] = Self.field(channelFieldName, channel, isIndexed: false)
        return UnsafeMutableBufferPointer(start: fields, count: 3)
    }

    /// Returns the fields of a 103 (RFC 8297), which precedes the response. They are valid until this object makes the
    /// next fields.
    func makeEarlyHintsFields() -> UnsafeMutableBufferPointer<nghttp2_nv> {
        fields[0] = earlyHintsStatusField
        return UnsafeMutableBufferPointer(start: fields, count: 1)
    }

    private static func bytes(_ text: StaticString) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount)
    }

    private static func statusText(_ status: Int) -> StaticString {
        switch status {
        case 200: "200"
        case 201: "201"
        case 204: "204"
        case 400: "400"
        case 403: "403"
        case 404: "404"
        case 405: "405"
        case 410: "410"
        case 413: "413"
        case 429: "429"
        case 500: "500"
        default: "503"
        }
    }

    private static func field(
        _ name: UnsafeRawBufferPointer,
        _ value: UnsafeRawBufferPointer,
        isIndexed: Bool
    ) -> nghttp2_nv {
        var flags = NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue | NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue
        if !isIndexed { flags |= NGHTTP2_NV_FLAG_NO_INDEX.rawValue }
        return nghttp2_nv(
            name: UnsafeMutableRawPointer(mutating: name.baseAddress)?.assumingMemoryBound(to: UInt8.self),
            value: UnsafeMutableRawPointer(mutating: value.baseAddress)?.assumingMemoryBound(to: UInt8.self),
            namelen: name.count,
            valuelen: value.count,
            flags: UInt8(truncatingIfNeeded: flags)
        )
    }
}

/// The beginning of the body for each reason: `{"reason":"…"`. `writeResponseBody` adds the rest.
let responseBodyStarts: [[UInt8]] = SimulatedResponse.allCases.map { Array("{\"reason\":\"\($0.text)\"".utf8) }

/// The start of the body for `ServiceUnavailable` in a response about broadcasts or channels. Apple's page about
/// channels writes this reason as two words.
let channelServiceUnavailableBodyStart = Array("{\"reason\":\"Service Unavailable\"".utf8)
