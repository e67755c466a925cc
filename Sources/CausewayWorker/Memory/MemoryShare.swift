/// How much memory this process may use before the kernel ends it.
struct MemoryShare {
    var groups = ControlGroups()

    /// Above this a number is version 1's word for no limit.
    private static let bytesMost: Int64 = 1 << 60

    /// The smallest limit of the process's group and of those that it lies in; nil: none of them has one.
    var limitBytes: Int64? {
        let texts = groups.unifiedTexts("memory.max") + groups.memoryTexts("memory.limit_in_bytes")
        return
            texts.compactMap { text in
                text.split(whereSeparator: \.isWhitespace).first.flatMap { Int64($0) }
                    .flatMap { (1..<Self.bytesMost).contains($0) ? $0 : nil }
            }
            .min()
    }
}
