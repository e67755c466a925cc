import Numbers

/// Checks and copies device tokens: pairs of hexadecimal digits, as in records and in APNs' paths.
public enum DeviceToken {
    /// Whether the bytes can be a token: an even number of hexadecimal digits of either case, ``Limits/tokenDigitsMin``
    /// to ``Limits/tokenDigitsMax``. Such a token is safe in a path and in a header.
    public static func isValid(_ bytes: UnsafeRawBufferPointer) -> Bool {
        bytes.count >= Limits.tokenDigitsMin && bytes.count <= Limits.tokenDigitsMax && bytes.count & 1 == 0
            && Hexadecimal.areDigits(bytes)
    }

    /// Copies hexadecimal digits, letters in lower case: the form in which tokens are compared and sent.
    /// - Precondition: `target` has room for `digits.count` bytes. `digits` satisfies ``isValid(_:)``.
    /// - Returns: the number of bytes written.
    public static func copyLowercased(
        _ digits: UnsafeRawBufferPointer,
        into target: UnsafeMutableRawBufferPointer
    ) -> Int {
        precondition(target.count >= digits.count, "as many bytes as digits")
        for index in 0..<digits.count {
            // This bit makes a letter lower-case. The digits 0 to 9 have it already.
            target[index] = digits[index] | 0x20
        }
        return digits.count
    }
}
