/// The bundle ids of the configured apps, at fixed addresses, because store calls borrow them.
package struct ApplicationNames: ~Copyable {
    private let bytes: UnsafeMutableRawBufferPointer
    private let names: [UnsafeRawBufferPointer]

    package init(_ applications: [DeliveryConfiguration.Application]) {
        let joinedNames = applications.flatMap(\.bundleIdentifier)
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: joinedNames.count, alignment: 1)
        bytes.copyBytes(from: joinedNames)
        var end = 0
        names = applications.map {
            let start = end
            end += $0.bundleIdentifier.count
            return UnsafeRawBufferPointer(rebasing: bytes[start..<end])
        }
        self.bytes = bytes
    }

    deinit { bytes.deallocate() }

    package subscript(application: UInt16) -> UnsafeRawBufferPointer { names[Int(application)] }
}
