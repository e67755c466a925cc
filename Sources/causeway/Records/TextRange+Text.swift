import LiveActivity

extension TextRange {
    /// Returns the text with its JSON escapes resolved.
    func text(in record: UnsafeRawBufferPointer) -> String { String(decoding: bytes(in: record), as: UTF8.self) }

    func bytes(in record: UnsafeRawBufferPointer) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: Int(range.count)) { target, count in
            count = unescape(self, from: record, into: UnsafeMutableRawBufferPointer(target))
        }
    }
}
