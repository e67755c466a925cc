import Glibc

extension StaticString {
    /// Whether the bytes are exactly this text.
    func equals(_ bytes: UnsafeRawBufferPointer) -> Bool {
        guard bytes.count == utf8CodeUnitCount else { return false }
        guard let start = bytes.baseAddress else { return true }
        return memcmp(start, utf8Start, bytes.count) == 0
    }
}

extension UnsafeRawBufferPointer {
    /// Decodes at most `bytesMax` bytes as text for logs. Invalid UTF-8 is replaced.
    func logText(bytesMax: Int) -> String {
        String(decoding: prefix(bytesMax), as: UTF8.self)
    }
}
