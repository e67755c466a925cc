import Glibc

/// A system call that failed.
public struct SystemError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The error number, as in `errno`.
    public var code: Int32
    /// The name of the system call, such as `connect`.
    public var operation: StaticString

    public init(code: Int32, operation: StaticString) {
        self.code = code
        self.operation = operation
    }

    /// The C library's text for the failure, without the name of the call.
    public var reason: String { systemErrorText(code) }

    public var description: String { "\(operation): \(reason)" }

    public static func == (left: SystemError, right: SystemError) -> Bool {
        left.code == right.code && left.operation.description == right.operation.description
    }
}

/// The C library's text for an `errno`, for error messages.
func systemErrorText(_ code: Int32) -> String {
    withUnsafeTemporaryAllocation(of: CChar.self, capacity: 256) { buffer in
        guard let base = buffer.baseAddress, strerror_r(code, base, buffer.count) == 0 else { return "errno \(code)" }
        return String(cString: base)
    }
}
