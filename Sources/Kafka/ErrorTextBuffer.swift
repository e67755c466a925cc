struct ErrorTextBuffer: ~Copyable {
    static let capacity = 512
    var bytes = [CChar](repeating: 0, count: ErrorTextBuffer.capacity)

    var string: String {
        bytes.withUnsafeBufferPointer { text in
            text.baseAddress.map { String(cString: $0) } ?? ""
        }
    }
}
