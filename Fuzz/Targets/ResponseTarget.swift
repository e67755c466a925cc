@testable import APNs

/// Checks the reader of APNs' response bodies. The input is a body that may end anywhere. Rule: the reason that the
/// reader finds is inside the body, between quotes.
func responseViolation(_ input: UnsafeRawBufferPointer) -> String? {
    withCopy(input) { bytes in
        let body = ErrorContent(bytes)
        _ = body.reason
        guard let reason = body.reasonText.baseAddress, let start = bytes.baseAddress else { return nil }
        let offset = reason - start
        let end = offset + body.reasonText.count
        guard offset > 0, end < bytes.count else { return "the reason is not inside of the body" }
        return bytes[offset - 1] == UInt8(ascii: "\"") && bytes[end] == UInt8(ascii: "\"")
            ? nil : "no quotes around the reason"
    }
}
