/// A buffer for the error texts that librdkafka writes out.
struct ErrorText: ~Copyable {
    static let capacity = 512
    var bytes = [CChar](repeating: 0, count: ErrorText.capacity)

    var string: String {
        bytes.withUnsafeBufferPointer { text in
            text.baseAddress.map { String(cString: $0) } ?? ""
        }
    }
}
